// Sphinx's scores of what a search finds, but for this: of pages that have the word in their text,
// those that say how to do something come before lists of names and notes for contributors.
var Scorer = {
  score: ([name, , , , score, , kind]) => {
    if (kind !== "text") return score;
    if (/^(explanation\/contributing|reference\/changelog|sg_execution)/.test(name)) return score - 4;
    if (/^(guides|start)\//.test(name)) return score + 2;
    return /^reference\/names\//.test(name) ? score - 2 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
