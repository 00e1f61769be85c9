// Elements of a page, drawn ones among them, with attributes and children.
const SVG = "http://www.w3.org/2000/svg";
function make(tag, attributes, ...children) {
  const drawn = ["svg", "g", "rect", "circle", "path", "line", "text", "title"].includes(tag);
  const node = drawn ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  node.append(...children.map(c => c instanceof Node ? c : document.createTextNode(c)));
  return node;
}
// What is wider than its place scrolls by itself.
const wide = node => make("div", { class: "wide" }, node);
