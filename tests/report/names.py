"""Names of classes that try to be markup, or break what handles them."""

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>document.title='owned'</script>",
    '"><img src=x onerror=alert(2)>',
    'it\'s "quoted" & <b>bold</b>',
    "<!-- --> ]]> {{ 7 * 7 }} {% raw %}",
    "\u0645\u0631\u062d\u0628\u0627 \u202e reversed",
    "\U0001f469\u200d\U0001f52c emoji",
    "line\u2028and\u2029paragraph",
    "bell\x07tab\tnewline\nend",
    "lone \ud800 surrogate",
    "very " * 1000 + "long",
    "' onfocus='alert(3)' autofocus x='",
]
