// Opens a report page in a headless Chromium and tries what a reader would do there.
//
//   node open_page.js MODULES CHROMIUM PAGE SCREENSHOTS
//
// MODULES is the folder of playwright-core and axe-core, SCREENSHOTS the start of the pictures'
// names. Prints what went wrong, line by line, and exits 1; else prints what was seen.
'use strict';
const fs = require('fs');
const path = require('path');

const [modules, browserPath, page_file, screenshots] = process.argv.slice(2);
const {chromium} = require(path.resolve(modules, 'playwright-core'));
const axe = fs.readFileSync(path.resolve(modules, 'axe-core/axe.min.js'), 'utf8');

const faults = [];
const seen = [];
const expect = (holds, fault) => { if (!holds) faults.push(fault); };

// The name of an operation lies inside of its bar.
async function expectNamesInBars(figure, name) {
  const outside = await figure.evaluate(element => {
    const boxes = selector =>
        [...element.querySelectorAll(selector)].map(mark => [mark, mark.getBoundingClientRect()]);
    const bars = boxes('svg g.mark-rect.role-mark path');
    return boxes('svg g.mark-text.role-mark text').filter(([, text]) => text.width > 0 &&
        !bars.some(([, bar]) => bar.left <= text.left + 1 && text.right <= bar.right + 1 &&
                                bar.top <= text.top + 1 && text.bottom <= bar.bottom + 1))
        .map(([text]) => text.textContent);
  });
  expect(outside.length === 0, `${name}: names outside of their bars: ${outside.join(', ')}`);
}

// A heading sorts by click and by key, and says so.
async function trySorting(table, name) {
  const head = table.locator('thead th:has(button)').last();
  const values = async () => {
    const at = await head.evaluate(cell => cell.cellIndex);
    const texts = await table.locator('tbody tr').evaluateAll(
        (rows, column) => rows.map(row => row.cells[column].textContent.trim()), at);
    return texts.map(text => text.replaceAll(',', '')).filter(text => /^[\d.]+$/.test(text))
        .map(Number);
  };
  const sorted = (numbers, order) =>
      numbers.every((number, i) => i === 0 || order * (number - numbers[i - 1]) >= 0);
  await head.locator('button').click();
  expect(await head.getAttribute('aria-sort') === 'ascending', `${name}: a click does not sort`);
  expect(sorted(await values(), 1), `${name}: is not in ascending order`);
  await head.locator('button').press('Enter');
  expect(await head.getAttribute('aria-sort') === 'descending', `${name}: a key does not sort`);
  expect(sorted(await values(), -1), `${name}: is not in descending order`);
}

// The button above a command copies it.
async function tryCopy(page, command, name) {
  await command.evaluate(element => { element.closest('details').open = true; });
  await command.locator('xpath=preceding-sibling::button').click();
  await page.waitForTimeout(100);
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  expect(copied.trim() === (await command.textContent()).trim(), `${name}: is not copied`);
}

// Accessibility: axe-core finds nothing serious or critical.
async function tryAccess(page, name) {
  await page.evaluate(axe);  // not as an element: the page admits only its own scripts
  const {violations} = await page.evaluate(() => window.axe.run({resultTypes: ['violations']}));
  for (const {id, impact, help, nodes} of violations) {
    expect(!['serious', 'critical'].includes(impact),
           `${name}: axe-core: ${impact}: ${id}: ${help}: ${nodes[0].html.slice(0, 200)}`);
  }
}

// In a narrow window, nothing is wider than the window, and the legends are whole.
async function tryNarrow(browser, url) {
  const context = await browser.newContext({viewport: {width: 400, height: 800}});
  const page = await context.newPage();
  await page.goto(url);
  await page.waitForSelector('html[data-ready=true]', {timeout: 60000});
  const wide = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  expect(wide <= 0, `400 pixels: the page is ${wide} pixels wider than its window`);
  const cut = await page.locator('svg g.role-legend-label text').evaluateAll(
      labels => labels.filter(label => label.textContent.endsWith('…') ||
              label.getBoundingClientRect().right > innerWidth)
          .map(label => label.textContent));
  expect(cut.length === 0, `400 pixels: the legend is cut: ${cut.join(', ')}`);
  await page.screenshot({path: `${screenshots}-narrow.png`, fullPage: true});
  await tryAccess(page, '400 pixels');
  await context.close();
}

async function tryChart(page, figure, number) {
  const chart = figure.locator('.chart');
  const name = `chart ${number}`;
  await chart.scrollIntoViewIfNeeded();
  // Marks: what Vega-Lite draws of the rows, inside of the plotting area.
  const marks = await figure.locator('svg g.mark-rect path, svg g.mark-symbol path, ' +
                                     'svg g.mark-area path, svg g.mark-line path').count();
  expect(marks > 0, `${name}: no marks are drawn`);
  expect((await chart.getAttribute('aria-label'))?.length > 20, `${name}: has no label`);

  // Times, rates and memory are not negative, and so are their axes. (Vega writes a minus sign.)
  const below = (await figure.locator('svg g.role-axis-label text').allTextContents())
                    .filter(label => /^[\u2212-]\d/.test(label));
  expect(below.length === 0, `${name}: an axis goes below zero: ${below.join(' ')}`);

  // Hover: somewhere over a mark that is visible the tooltip must come, with a value in it.
  const boxes = await figure.locator('svg g.mark-rect path, svg g.mark-symbol path')
                    .evaluateAll(paths => paths.map(path => {
    const box = path.getBoundingClientRect();
    return {x: box.x + box.width / 2, y: box.y + box.height / 2, size: box.width * box.height};
  }));
  boxes.sort((a, b) => b.size - a.size);
  let hovered = '';
  for (const box of boxes.slice(0, 40)) {
    await page.mouse.move(box.x - 1, box.y);
    await page.mouse.move(box.x, box.y);
    if (await page.locator('.tip').isVisible()) {
      hovered = await page.locator('.tip').innerText();
      break;
    }
  }
  expect(/\d/.test(hovered), `${name}: hovering shows no value (${boxes.length} marks)`);
  await page.mouse.move(0, 0);

  // Keyboard: the chart takes the focus, and arrows tell values.
  await chart.focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  const readout = await figure.locator('.readout').innerText();
  expect(/^(2 of \d+|1 of 1)\. .*\d/.test(readout), `${name}: the keyboard tells no value: ${readout}`);
  await page.keyboard.press('Escape');
  expect(await figure.locator('.readout').innerText() === '', `${name}: Escape does not end it`);

  // Zoom: half of the window, and back. A long step opens at one micro-batch.
  if (await figure.locator('button[data-do=in]').count() > 0) {
    await expectNamesInBars(figure, name);
    const axis = async () =>
        (await figure.locator('svg g.role-axis-label text').allTextContents()).sort().join(' ');
    const becomes = async wanted => {
      for (let i = 0; i < 100 && !wanted(await axis()); ++i) await page.waitForTimeout(100);
      return wanted(await axis());
    };
    const opened = await axis();
    const {window, opened: part} =
        JSON.parse(await figure.locator('script').textContent());
    await chart.focus();
    await page.keyboard.press('0');
    if (part) {
      expect(part[1] - part[0] < window[1], `${name}: opens with more than the step`);
      expect(await becomes(now => now !== opened), `${name}: does not open at a micro-batch`);
    }
    const before = await axis();
    await figure.locator('button[data-do=in]').focus();
    await page.keyboard.press('Enter');
    expect(await becomes(now => now !== before), `${name}: zooming changes nothing`);
    await expectNamesInBars(figure, name);
    await chart.focus();
    await page.keyboard.press('0');
    expect(await becomes(now => now === before), `${name}: 0 does not show the whole step`);
  }
  seen.push(`${name}: ${marks} marks; hover: ${hovered.replace(/\s+/g, ' ')}; keyboard: ${readout}`);
}

async function main() {
  const browser = await chromium.launch({
    executablePath: browserPath,
    headless: true,
    args: ['--headless', '--no-sandbox', '--disable-gpu'],
  });
  for (const scheme of ['light', 'dark']) {
    const context = await browser.newContext(
        {colorScheme: scheme, viewport: {width: 1200, height: 900},
         permissions: ['clipboard-read', 'clipboard-write']});
    const page = await context.newPage();
    const url = 'file://' + path.resolve(page_file);
    page.on('console', message => {
      if (['error', 'warning'].includes(message.type())) {
        faults.push(`${scheme}: console: ${message.text()}`);
      }
    });
    page.on('pageerror', error => faults.push(`${scheme}: error: ${error.message}`));
    page.on('request', request => {
      if (request.url() !== url && !request.url().startsWith('data:')) {
        faults.push(`${scheme}: asks for ${request.url()}`);
      }
    });
    await page.goto(url);
    await page.waitForSelector('html[data-ready=true]', {timeout: 60000});
    const figures = page.locator('figure[data-chart]');
    const count = await figures.count();
    expect(count > 0, 'the page has no charts');
    expect(await page.locator('figure[data-drawn=true]').count() === count,
           `${scheme}: not every chart is drawn`);
    const wide = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(wide <= 0, `${scheme}: the page is ${wide} pixels wider than its window`);
    if (scheme === 'light') {
      expect(await page.locator('h1').count() === 1, 'a page has one first heading');
      const tables = await page.locator('table').count();
      expect(tables > 0, 'the page has no tables');
      for (let i = 0; i < count; ++i) await tryChart(page, figures.nth(i), i + 1);
      const sortable = page.locator('table[data-sortable]');
      for (let i = 0; i < await sortable.count(); ++i) {
        await trySorting(sortable.nth(i), `sortable table ${i + 1}`);
      }
      const commands = page.locator('pre[data-command]');
      for (let i = 0; i < await commands.count(); ++i) {
        await tryCopy(page, commands.nth(i), `command ${i + 1}`);
      }
      await page.mouse.move(0, 0);
    }
    await page.evaluate(() => document.activeElement?.blur());
    await page.screenshot({path: `${screenshots}-${scheme}.png`, fullPage: true});
    await tryAccess(page, scheme);
    if (scheme === 'light') await page.pdf({path: `${screenshots}.pdf`});
    if (scheme === 'light') await tryNarrow(browser, url);
    await context.close();
  }
  await browser.close();
}

main().then(
    () => {
      console.log((faults.length > 0 ? faults : seen).join('\n'));
      process.exit(faults.length > 0 ? 1 : 0);
    },
    error => {
      console.log(String(error.stack || error));
      process.exit(1);
    });
