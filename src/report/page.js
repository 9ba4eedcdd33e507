// Draws the charts of a report page from the specifications and the data that stand in it, and
// makes them usable by pointer and keyboard alike. Sorts tables and copies commands. The page is
// complete without: every chart has its tables.
'use strict';
(() => {
  const tip = document.createElement('div');
  tip.className = 'tip';
  tip.hidden = true;
  document.body.append(tip);

  const number = new Intl.NumberFormat('en', {maximumSignificantDigits: 5});
  const fixed = {};
  const grouped = (value, digits) => {
    fixed[digits] ??= new Intl.NumberFormat(
        'en', {minimumFractionDigits: digits, maximumFractionDigits: digits});
    return fixed[digits].format(value);
  };

  // Data come as columns. A column is one value for all rows, or a value for each row; repeated
  // values are told once, and the rows hold their indices.
  function rowsOf(data) {
    const columns = Object.entries(data.columns);
    return Array.from({length: data.rows}, (_, i) => {
      const row = {id: i};
      for (const [name, column] of columns) {
        const value = Array.isArray(column) ? column[i] : column;
        row[name] = data.values[name] ? data.values[name][value] : value;
      }
      return row;
    });
  }

  const kFont = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
  const kLegendSize = 12.5, kNameSize = 11;
  const pen = document.createElement('canvas').getContext('2d');
  const widths = {};  // in pixels, of texts that were measured before
  function widthOf(text, size) {
    const key = `${size} ${text}`;
    if (widths[key] === undefined) {
      pen.font = `${size}px ${kFont}`;
      widths[key] = pen.measureText(text).width;
    }
    return widths[key];
  }

  // The number of columns in which a legend fits beside the vertical axis, and the room of one label.
  function legendIn(spec, width) {
    const kAxis = 48;
    const parts = [spec, ...(spec.layer ?? [])];
    const labels = parts.flatMap(part => part.encoding?.color?.scale?.domain ?? []);
    const kSymbol = 40;
    const widest = kSymbol + Math.max(0, ...labels.map(label => widthOf(label, kLegendSize)));
    return {
      columns: Math.max(1, Math.floor((width - kAxis) / widest)),
      labelLimit: width - kAxis - kSymbol
    };
  }

  // What a row says: pairs of a title and a text.
  function describe(row, chart) {
    const facts = [];
    for (const field of chart.tips) {
      let value = row[field.field];
      if (value === undefined || value === null || value === '') continue;
      if (typeof value === 'number') {
        value = field.digits === undefined ? number.format(value) : grouped(value, field.digits);
      }
      facts.push([field.title, field.unit ? `${value} ${field.unit}` : String(value)]);
    }
    return facts;
  }

  function showTip(facts, x, y) {
    const table = document.createElement('table');
    for (const [title, text] of facts) {
      const line = table.insertRow();
      const head = document.createElement('th');
      head.textContent = title;
      line.append(head);
      line.insertCell().textContent = text;
    }
    tip.replaceChildren(table);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = x + 16 + box.width > innerWidth ? x - 16 - box.width : x + 16;
    const top = y + 16 + box.height > innerHeight ? y - 12 - box.height : y + 16;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, top)}px`;
  }

  // Bars narrower than this many of the shown width's parts are drawn as one with their neighbours,
  // and nothing is drawn narrower than the second. All lanes together have at most so many parts as
  // the third.
  const kParts = 1400, kNarrowest = 850, kAllParts = 10000;

  // The bars of a timeline in [from, to): those too narrow to see are joined, lane by lane. Always
  // new objects: Vega marks those that it is given.
  function barsIn(lanes, from, to) {
    const least = (to - from) / Math.min(kParts, kAllParts / lanes.length);
    const bars = [];
    for (const lane of lanes) {
      // The first bar that ends in the window; ends of a lane ascend.
      let low = 0, high = lane.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (lane[middle].end < from) low = middle + 1; else high = middle;
      }
      let joined = null;
      for (let i = low; i < lane.length && lane[i].start <= to; ++i) {
        const bar = {...lane[i]};
        if (bar.end - bar.start >= least) {
          joined = null;
          bars.push(bar);
        } else if (joined && bar.start - joined.end < least &&
                   (joined.kind === bar.kind ? joined.end - joined.start < 4 * least :
                                               bar.end - joined.start < least)) {
          // A bar of several kinds has the kind of its busiest part.
          if (bar.busy > joined.busy) joined.kind = bar.kind;
          joined.end = bar.end;
          joined.operations += bar.operations;
          joined.busy += bar.busy;
          joined.name = `${number.format(joined.operations)} short operations`;
          if (joined.of !== bar.of) joined.of = '';
        } else {
          joined = bar;
          bars.push(bar);
        }
      }
    }
    bars.forEach((bar, i) => {
      bar.id = i;
      bar.left = bar.start;
      const next = i + 1 < bars.length && bars[i + 1].lane === bar.lane ? bars[i + 1].start : to;
      const wanted = bar.start + (to - from) / kNarrowest;
      bar.right = Math.max(bar.end, Math.min(wanted, Math.max(next, bar.end)));
      // A name begins where its bar comes into sight, and is drawn only in a bar that holds it.
      bar.seen = Math.max(bar.left, from);
      bar.part = (Math.min(bar.right, to) - bar.seen) / (to - from);
      bar.room = 8 + widthOf(bar.name, kNameSize);
      // Pale where most of what is drawn is not busy.
      bar.fill = Math.min(1, Math.max(0.22, bar.busy / (bar.right - bar.left)));
    });
    return bars;
  }

  class Timeline {
    constructor(rows, chart) {
      let next = 0;
      this.lanes = chart.lanes.map(({name, bars}) => {
        let ticks = 0;  // at the end of the last bar
        return rows.slice(next, next += bars).map(row => {
          const start = ticks + row.gap;
          ticks = start + row.length;
          return {
            lane: name, kind: row.kind, name: row.name, of: row.of, operations: row.operations,
            start: start * chart.tick, end: ticks * chart.tick,
            busy: (row.length - row.idle) * chart.tick,
          };
        });
      });
      this.whole = chart.window;
      this.shown = chart.opened ?? chart.window;
    }
    bars() { return barsIn(this.lanes, this.shown[0], this.shown[1]); }
  }

  const config = {
    background: null,
    font: kFont,
    aria: false,
    view: {stroke: null},
    axis: {
      labelColor: 'var(--quiet)', titleColor: 'var(--quiet)', tickColor: 'var(--line)',
      domainColor: 'var(--line)', gridColor: 'var(--grid)', labelFontSize: 12, titleFontSize: 12.5,
      titleFontWeight: 'normal', labelLimit: 260, titlePadding: 10,
    },
    legend: {
      labelColor: 'var(--ink)', titleColor: 'var(--quiet)', labelFontSize: kLegendSize,
      titleFontSize: kLegendSize, titleFontWeight: 'normal', symbolType: 'square', symbolStrokeWidth: 0,
      symbolBaseFillColor: 'var(--quiet)', symbolBaseStrokeColor: 'var(--quiet)',
    },
    text: {color: 'var(--ink)'},
  };

  async function draw(figure) {
    const chart = JSON.parse(figure.querySelector('script').textContent);
    const place = figure.querySelector('.chart');
    const readout = figure.querySelector('.readout');
    const rows = rowsOf(chart.data);
    const timeline = chart.window ? new Timeline(rows, chart) : null;
    let drawn = timeline ? timeline.bars() : rows;
    const spec = {
      ...chart.spec,
      $schema: 'https://vega.github.io/schema/vega-lite/v6.json',
      datasets: {rows: drawn},
    };
    // In an element of its own: Vega sets roles and labels where it draws.
    const canvas = document.createElement('div');
    canvas.className = 'canvas';
    place.append(canvas);
    const {view} = await vegaEmbed(canvas, spec, {
      actions: false,
      renderer: 'svg',
      config: {...config, legend: {...config.legend, ...legendIn(spec, place.clientWidth)}},
      tooltip: (_, event, item, value) => {
        if (value && item.datum) showTip(describe(item.datum, chart), event.clientX, event.clientY);
        else tip.hidden = true;
      },
    });
    const svg = place.querySelector('svg');
    svg.setAttribute('aria-hidden', 'true');
    svg.removeAttribute('role');

    let at = -1;
    const say = text => { readout.textContent = text; };
    const mark = row => view.signal('focus', row ? row.id : -1).runAsync();
    const go = to => {
      if (drawn.length === 0) return;
      at = Math.min(Math.max(to, 0), drawn.length - 1);
      const row = drawn[at];
      mark(row);
      say(`${at + 1} of ${drawn.length}. ` +
          describe(row, chart).map(([title, text]) => `${title}: ${text}`).join('; '));
    };
    // Another lane of a timeline, at the same time.
    const change = by => {
      if (!timeline || at < 0) return go(at + by);
      const row = drawn[at];
      const names = chart.lanes.map(lane => lane.name);
      for (let lane = names.indexOf(row.lane) + by; lane >= 0 && lane < names.length; lane += by) {
        let best = -1;
        drawn.forEach((other, i) => {
          if (other.lane !== names[lane]) return;
          const nearer = best < 0 ||
              Math.abs(other.start - row.start) < Math.abs(drawn[best].start - row.start);
          if (nearer) best = i;
        });
        if (best >= 0) return go(best);
      }
    };

    let show = () => {};
    if (timeline) {
      const refresh = () => {
        drawn = timeline.bars();
        at = -1;
        view.signal('focus', -1);
        return view.data('rows', drawn).runAsync();
      };
      let waiting = false;
      view.addSignalListener('zoom_left', (_, window) => {
        timeline.shown = window && window.length === 2 ? window.map(Number) : timeline.whole;
        if (waiting) return;
        waiting = true;
        requestAnimationFrame(() => { waiting = false; refresh(); });
      });
      show = (from, to) => {
        const [first, last] = timeline.whole;
        const width = Math.min(to - from, last - first);
        const start = Math.min(Math.max(from, first), last - width);
        return view.signal('zoom_left', [start, start + width]).runAsync().then(() =>
          say(`Shown: ${number.format(start)} to ${number.format(start + width)} of ` +
              `${number.format(last)} ${chart.tips.find(tip => tip.field === 'end').unit}`));
      };
    }
    const zoom = factor => {
      const [from, to] = timeline.shown;
      const row = at >= 0 ? drawn[at] : null;
      const middle = row ? (row.start + row.end) / 2 : (from + to) / 2;
      const half = (to - from) * factor / 2;
      show(middle - half, middle + half);
    };
    const pan = part => {
      const [from, to] = timeline.shown;
      show(from + (to - from) * part, to + (to - from) * part);
    };
    const actions = timeline ? {
      in: () => zoom(0.5), out: () => zoom(2), earlier: () => pan(-0.4), later: () => pan(0.4),
      whole: () => show(...timeline.whole),
    } : {};
    for (const button of figure.querySelectorAll('button[data-do]')) {
      button.addEventListener('click', () => actions[button.dataset.do]());
    }
    place.addEventListener('keydown', event => {
      if (event.target !== place || event.ctrlKey || event.altKey || event.metaKey) return;
      const keys = {
        ArrowRight: () => go(at + 1), ArrowLeft: () => go(at - 1), Home: () => go(0),
        End: () => go(drawn.length - 1), ArrowDown: () => change(1), ArrowUp: () => change(-1),
        Escape: () => { at = -1; mark(null); say(''); },
        '+': actions.in, '=': actions.in, '-': actions.out, '0': actions.whole,
        PageUp: actions.earlier, PageDown: actions.later,
      };
      const act = keys[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
    place.addEventListener('pointerleave', () => { tip.hidden = true; });
    figure.dataset.drawn = 'true';
  }

  // The value by which a cell is sorted: a number in its unit, or else a text. Null: it has none.
  const kUnits = {
    B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40,
    ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400,
  };
  function sortValue(cell) {
    const text = cell.textContent.trim();
    if (text === '' || text === '-') return null;
    const parts = /^[<>]?=?([+-]?[\d,]*\.?\d+)(?:\s([A-Za-z]+))?$/.exec(text);
    if (!parts || (parts[2] && !kUnits[parts[2]])) return text;
    return Number(parts[1].replaceAll(',', '')) * (kUnits[parts[2]] ?? 1);
  }
  function compare(a, b) {
    if (typeof a === 'number' && typeof b === 'number') return a - b;
    return String(a).localeCompare(String(b), 'en', {numeric: true});
  }

  // Buttons in the headings of a table sort its rows. Cells without a value stay last.
  function makeSortable(table) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (head.textContent === '') return;
      const button = document.createElement('button');
      button.type = 'button';
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener('click', () => {
        const order = head.getAttribute('aria-sort') === 'ascending' ? -1 : 1;
        for (const other of heads) other.removeAttribute('aria-sort');
        head.setAttribute('aria-sort', order > 0 ? 'ascending' : 'descending');
        const rows = [...body.rows].map(row => ({row, value: sortValue(row.cells[column])}));
        rows.sort((a, b) => a.value === null || b.value === null ?
            (a.value === null) - (b.value === null) : order * compare(a.value, b.value));
        body.append(...rows.map(({row}) => row));
      });
    });
  }

  // A button above a command copies it.
  function addCopy(command) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'copy';
    button.textContent = 'Copy';
    button.setAttribute('aria-live', 'polite');
    command.before(button);
    button.addEventListener('click', async () => {
      try {
        await navigator.clipboard.writeText(command.textContent.trim() + '\n');
        button.textContent = 'Copied';
      } catch {
        // Browsers refuse where a page is neither a file nor served encrypted.
        getSelection().selectAllChildren(command);
        button.textContent = 'Selected; press Ctrl+C';
      }
    });
  }

  async function drawAll() {
    for (const figure of document.querySelectorAll('figure[data-chart]')) {
      try {
        await draw(figure);
      } catch (error) {
        figure.querySelector('.readout').textContent = 'This chart could not be drawn. The table has the same values.';
        console.error(error);
      }
    }
    document.documentElement.dataset.ready = 'true';
  }
  document.querySelectorAll('table[data-sortable]').forEach(makeSortable);
  document.querySelectorAll('pre[data-command]').forEach(addCopy);
  drawAll();
})();
