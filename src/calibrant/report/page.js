(function () {
  "use strict";
  var root = document.documentElement;
  var data = JSON.parse(document.getElementById("numbers").textContent);  /* of classes */
  var all = function (selector, from) {
    return Array.prototype.slice.call((from || document).querySelectorAll(selector));
  };
  var make = function (name, text, className) {
    var element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  };
  root.classList.add("js");
  all(".controls, .filter").forEach(function (element) { element.hidden = false; });

  var view = document.getElementById("view");
  function show() {
    all(".figures[data-view]").forEach(function (element) {
      element.hidden = element.dataset.view !== view.value;
    });
  }
  if (view) {
    view.addEventListener("change", show);
    show(); /* a reloaded page remembers its choice */
  }

  window.addEventListener("beforeprint", function () {
    all("details").forEach(function (element) { element.open = true; });
  });

  /* Sorting: every heading becomes a button; missing numbers go last. */
  function order(a, b, sign) {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "string") return sign * a.localeCompare(b, undefined, { numeric: true });
    return sign * (a - b);
  }
  function headings(table, sort) {
    var heads = all("thead th", table);
    heads.forEach(function (head, i) {
      if (head.dataset.plain) return;
      var button = make("button", head.textContent);
      button.type = "button";
      head.textContent = "";
      head.appendChild(button);
      button.addEventListener("click", function () {
        var down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach(function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        sort(i, down ? -1 : 1);
      });
    });
  }
  all("table.sortable").forEach(function (table) {
    headings(table, function (column, sign) {
      var body = table.tBodies[0];
      var keyed = all("tr", body).map(function (row) {
        var text = row.cells[column].dataset.value;
        var value = column === 0 ? text : text === "" ? null : Number(text);
        return [value, row];
      });
      keyed.sort(function (a, b) { return order(a[0], b[0], sign); });
      keyed.forEach(function (pair) { body.appendChild(pair[1]); });
    });
  });

  /* Classes: filtered and sorted here, so that thousands of them stay usable. */
  var table = document.getElementById("class-table");
  var filter = document.getElementById("filter");
  var matches = document.getElementById("matches");
  var more = document.getElementById("more");
  var STEP = 50;
  var limit = STEP;
  var views = {};
  data.shown.forEach(function (column) { views[column] = true; });
  var sequence = data.order.slice();
  function cell(row, values, place, digits) {
    var value = values[place];
    row.appendChild(make("td", value === null ? "-" : value.toFixed(digits), "number"));
  }
  function render() {
    var wanted = filter.value.toLowerCase();
    var found = sequence.filter(function (place) {
      return data.names[place].toLowerCase().indexOf(wanted) >= 0;
    });
    var body = document.createElement("tbody");
    found.slice(0, limit).forEach(function (place) {
      var row = document.createElement("tr");
      var head = make("th");
      head.scope = "row";
      head.appendChild(make("bdi", data.names[place]));
      row.appendChild(head);
      data.columns.forEach(function (column) { cell(row, column.values, place, column.digits); });
      var last = make("td", undefined, "number");
      if (views[place]) {
        var button = make("button", "show");
        button.type = "button";
        button.setAttribute("aria-label", "Show the diagram of class " + data.names[place]);
        button.addEventListener("click", function () {
          view.value = "c" + place;
          show();
          document.getElementById("diagrams").scrollIntoView();
          view.focus();
        });
        last.appendChild(button);
      }
      row.appendChild(last);
      body.appendChild(row);
    });
    table.replaceChild(body, table.tBodies[0]);
    more.hidden = found.length <= limit;
    matches.textContent = Math.min(limit, found.length) + " of " + found.length +
      (wanted ? " matching classes" : " classes");
  }
  headings(table, function (column, sign) {
    var values = column === 0 ? data.names : data.columns[column - 1].values;
    sequence.sort(function (a, b) { return order(values[a], values[b], sign) || a - b; });
    limit = STEP;
    render();
  });
  filter.addEventListener("input", function () { limit = STEP; render(); });
  more.addEventListener("click", function () { limit += 10 * STEP; render(); });
  var plain = make("th", "diagram", "number");
  plain.scope = "col";
  table.tHead.rows[0].appendChild(plain);
  render();
})();
