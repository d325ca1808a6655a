"""How the page looks, and the few lines of script that make its tooltips immediate; no content depends on either.

Colours follow the reader's light or dark preference, can be told apart by colour-blind readers (near Okabe and Ito's set), and
never carry a meaning alone: lines are dashed differently, masks are drawn as underlines, verdicts are words.
"""

from __future__ import annotations

CSS = """
:root{color-scheme:light dark;--page:#f6f6f3;--card:#fff;--ink:#1d2025;--soft:#5a616b;--rule:#dcdcd6;--grid:#e9e9e4;
--accent:#0a5d9c;--c0:#0072b2;--c1:#c9510c;--c2:#008a63;--c3:#b0568c;--c4:#b07d00;--c5:#3d93c9;--c6:#6b6b6b;--c7:#7a4fb5;
--pass:#0a7f5c;--fail:#c9510c;--mixed:#0072b2;--none:#9a9fa6;--policy:0 114 178;--notice:#8f6200;--serious:#b3261e;--hit:#1d202512}
@media(prefers-color-scheme:dark){:root{--page:#14161a;--card:#1c1f24;--ink:#e6e7e9;--soft:#a0a7b1;--rule:#343941;--grid:#292d34;
--accent:#7cc0f0;--c0:#5aaeea;--c1:#ff9256;--c2:#3fcb9c;--c3:#e49bc5;--c4:#e8b84a;--c5:#9ad3f5;--c6:#a9a9a9;--c7:#bb99ee;
--pass:#3fcb9c;--fail:#ff9256;--mixed:#5aaeea;--none:#7d848d;--policy:90 174 234;--notice:#e8b84a;--serious:#ff8a80;
--hit:#ffffff14}}
*{box-sizing:border-box}
html{scroll-padding-top:3.4rem;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);overflow-wrap:anywhere;
font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
main,header>div,nav>div,footer{max-width:1216px;margin:0 auto;padding:0 1.25rem}
header{padding:1.6rem 0 .4rem}
h1{font-size:1.65rem;line-height:1.25;margin:0;font-weight:650;letter-spacing:-.01em}
h2{font-size:1.2rem;margin:2.6rem 0 .3rem;font-weight:650}
h3{font-size:.98rem;margin:0;font-weight:620}
p{margin:.35rem 0}
a{color:var(--accent)}
.soft,figcaption p,.lead{color:var(--soft)}
.small{font-size:.8rem;line-height:1.45;color:var(--soft)}
.lead{margin-bottom:.9rem;max-width:96ch}
nav{position:sticky;top:0;z-index:2;background:var(--page);border-bottom:1px solid var(--rule);font-size:.88rem}
nav>div{display:flex;gap:1.1rem;overflow-x:auto;padding-top:.5rem;padding-bottom:.5rem;white-space:nowrap}
nav a{text-decoration:none}
nav a:hover{text-decoration:underline}
.chip{display:inline-block;border:1px solid currentColor;border-radius:99px;padding:0 .55rem;font-size:.78rem;line-height:1.5;
font-weight:600;letter-spacing:0;white-space:nowrap;vertical-align:middle}
.pass,.success{color:var(--pass)}.fail,.failure{color:var(--fail)}
.notice{color:var(--notice)}.serious{color:var(--serious)}.unscored{color:var(--soft)}
.facts{display:grid;grid-template-columns:repeat(3,minmax(0,1fr));gap:.8rem;margin:1.1rem 0 .5rem}
.fact{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:.7rem .95rem}
.fact h2{font-size:.82rem;color:var(--soft);font-weight:560;margin:0}
.fact p{margin:.1rem 0 0}
.fact .big{font-size:1.4rem;font-weight:640;line-height:1.35;font-variant-numeric:tabular-nums}
.missing{color:var(--soft);font-style:italic}
.fact .big.missing{font-size:1rem;font-weight:450}
.missing.box{border:1px dashed var(--rule);border-radius:8px;padding:1.2rem;margin:.6rem 0;text-align:center}
.finding{background:var(--card);border:1px solid var(--rule);border-left:4px solid;border-radius:8px;padding:.6rem .9rem;
margin:.55rem 0}
.finding>*{color:var(--ink)}
.finding>.chip{color:inherit}
.finding b{margin-left:.5rem}
.finding p{margin:.25rem 0 0;font-size:.92rem}
.charts{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:1rem}
.chart{margin:0;background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:.85rem 1rem .7rem;min-width:0;
display:flex;flex-direction:column}
.chart.wide{grid-column:1/-1}
.chart figcaption p{font-size:.84rem;line-height:1.45;margin:.15rem 0 .3rem}
.chart>svg{width:100%;height:auto;display:block;margin-top:.2rem}
.chart>svg.slim{display:none}
.chart>details{margin-top:auto}
svg text{font-size:12px;fill:var(--soft);font-variant-numeric:tabular-nums}
svg .label{fill:var(--ink)}
.grid{stroke:var(--grid)}.axis,.tick{stroke:var(--soft)}
.c0{--c:var(--c0)}.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}
.c4{--c:var(--c4)}.c5{--c:var(--c5)}.c6{--c:var(--c6)}.c7{--c:var(--c7)}
.k-pass{--c:var(--pass)}.k-fail{--c:var(--fail)}.k-mixed{--c:var(--mixed)}.k-none{--c:var(--none)}
.line{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round}
.d1{stroke-dasharray:7 3}.d2{stroke-dasharray:2 3}.d3{stroke-dasharray:9 3 2 3}.d4{stroke-dasharray:12 4}
.d5{stroke-dasharray:4 2}.d6{stroke-dasharray:1 4}.d7{stroke-dasharray:14 3 3 3}
.dot{fill:var(--c)}
.area{fill:var(--c)}
.band{opacity:.2}
.mark{fill:var(--c);stroke:var(--card);stroke-width:1}
.diamond{fill:var(--card);stroke:var(--c);stroke-width:2}
.whisker{stroke:var(--c);stroke-width:2;fill:none}
.level{stroke:var(--ink);stroke-dasharray:3 3}
text.level{stroke:none}
.gap{stroke:var(--soft);stroke-dasharray:1 4;fill:none}
.hit rect{fill:transparent}
.hit:hover rect{fill:var(--hit)}
.part:hover{opacity:.8}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.1rem 1rem;margin:.35rem 0 .3rem;padding:0;font-size:.82rem}
.legend li{display:flex;align-items:center;gap:.4rem}
.legend svg{width:22px;height:12px;flex:none}
details>summary{cursor:pointer;color:var(--accent);font-size:.84rem;padding:.15rem 0}
.scroll{overflow:auto;max-height:22rem;border:1px solid var(--rule);border-radius:6px;margin:.3rem 0;background:var(--card)}
table{border-collapse:collapse;font-size:.82rem;font-variant-numeric:tabular-nums;width:100%}
th,td{padding:.22rem .6rem;text-align:right;border-bottom:1px solid var(--grid);vertical-align:top;overflow-wrap:normal;
white-space:nowrap}
tr:last-child>*{border-bottom:0}
th:first-child,.words th,.words td{text-align:left}
.words td,.words th{overflow-wrap:break-word;white-space:normal}
.words .scroll{max-height:none}
thead th{position:sticky;top:0;background:var(--card);color:var(--soft);font-weight:600;box-shadow:0 1px var(--rule)}
tbody th{font-weight:500}
.transcript{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:.25rem .95rem;margin:.6rem 0}
.transcript>summary{color:var(--ink);font-size:.9rem;padding:.4rem 0}
.transcript>summary b{margin:0 .5rem}
.transcript[open]{padding-bottom:.6rem}
.turn{display:grid;grid-template-columns:9.6rem minmax(0,1fr);gap:.1rem .9rem;border-top:1px solid var(--grid);padding:.45rem 0}
.role{font-size:.8rem;color:var(--soft)}
.role b{display:block;color:var(--ink);font-weight:600}
.turn .small{grid-column:2}
.tokens{font:.86rem/2.05 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;direction:ltr;margin:0}
.t{display:inline-block;max-width:100%;line-height:1.3;unicode-bidi:isolate;white-space:pre-wrap;padding:.1rem .12rem;
margin-right:1px;border-radius:3px;border:1px solid transparent;border-bottom:3px solid transparent;
box-shadow:0 0 0 1px var(--grid)}
.t.p{background:rgb(var(--policy)/calc(.06 + .085*var(--s,0)));border-bottom-color:var(--c0)}
.t.x{border-bottom:3px dashed var(--fail)}
.t.u{border-bottom:3px dotted var(--none)}
.t.f{border:1px dotted var(--none);font-style:italic;color:var(--soft)}
.s1{--s:1}.s2{--s:2}.s3{--s:3}.s4{--s:4}.s5{--s:5}.s6{--s:6}.s7{--s:7}
.key{display:flex;flex-wrap:wrap;gap:.5rem 1.4rem;background:var(--card);border:1px solid var(--rule);border-radius:10px;
padding:.6rem .95rem;font-size:.84rem;list-style:none;margin:.6rem 0}
.key .t{font:.84rem ui-monospace,Consolas,"DejaVu Sans Mono",monospace;margin-right:.35rem}
.tip{position:fixed;z-index:9;pointer-events:none;white-space:pre-line;background:var(--ink);color:var(--page);font-size:.8rem;
line-height:1.4;padding:.35rem .6rem;border-radius:6px;max-width:min(22rem,90vw);font-variant-numeric:tabular-nums}
footer{color:var(--soft);font-size:.82rem;padding-top:2.5rem;padding-bottom:2.5rem}
@media(max-width:820px){.charts{grid-template-columns:minmax(0,1fr)}.chart{padding:.7rem .7rem .5rem}
.chart>svg.broad{display:none}.chart>svg.slim{display:block}
svg text{font-size:15px}.facts{grid-template-columns:repeat(2,minmax(0,1fr))}h1{font-size:1.35rem}
main,header>div,nav>div,footer{padding-left:.8rem;padding-right:.8rem}
.turn{grid-template-columns:minmax(0,1fr)}.turn .small{grid-column:1}.role b{display:inline;margin-right:.4rem}}
@media(max-width:480px){.facts{grid-template-columns:minmax(0,1fr)}svg text{font-size:16px}}
@media print{nav{display:none}.scroll{max-height:none}body{background:#fff}}
"""

SCRIPT = """
(() => {
  const tip = document.createElement('div');
  tip.className = 'tip'; tip.hidden = true; document.body.append(tip);
  const readout = (element) => {
    if (element.dataset.tip === undefined) {
      const child = element.querySelector(':scope > title');
      element.dataset.tip = child ? child.textContent : element.title;
      if (child) child.remove(); else element.removeAttribute('title');
    }
    return element.dataset.tip;
  };
  const show = (event) => {
    const element = event.target.closest && event.target.closest('.hit,.part,.t[title],.t[data-tip]');
    tip.hidden = !element;
    if (!element) return;
    tip.textContent = readout(element);
    const box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, window.innerWidth - box.width - 8);
    const below = event.clientY + 18 + box.height < window.innerHeight;
    tip.style.left = Math.max(4, left) + 'px';
    tip.style.top = (below ? event.clientY + 18 : event.clientY - box.height - 12) + 'px';
  };
  for (const name of ['pointermove', 'pointerdown']) document.addEventListener(name, show, { passive: true });
  document.addEventListener('scroll', () => { tip.hidden = true; }, { passive: true, capture: true });
})();
"""
