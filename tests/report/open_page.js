// Opens a report page in a headless Chromium and tries what a reader would do there.
//
//   node open_page.js PLAYWRIGHT CHROMIUM PAGE SCREENSHOTS
//
// PLAYWRIGHT is the folder of playwright-core, SCREENSHOTS the start of the pictures' names. Prints
// what went wrong, line by line, and exits 1; else prints what was seen.
'use strict';
const path = require('path');

const [playwright, browserPath, page_file, screenshots] = process.argv.slice(2);
const {chromium} = require(path.resolve(playwright));

const faults = [];
const seen = [];
const expect = (holds, fault) => { if (!holds) faults.push(fault); };

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

  // Zoom: half of the window, and back.
  if (await figure.locator('button[data-do=in]').count() > 0) {
    const axis = async () =>
        (await figure.locator('svg g.role-axis-label text').allTextContents()).sort().join(' ');
    const before = await axis();
    await figure.locator('button[data-do=in]').focus();
    await page.keyboard.press('Enter');
    const becomes = async wanted => {
      for (let i = 0; i < 100 && !wanted(await axis()); ++i) await page.waitForTimeout(100);
      return wanted(await axis());
    };
    expect(await becomes(now => now !== before), `${name}: zooming changes nothing`);
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
        {colorScheme: scheme, viewport: {width: 1200, height: 900}});
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
      await page.mouse.move(0, 0);
    }
    await page.evaluate(() => document.activeElement?.blur());
    await page.screenshot({path: `${screenshots}-${scheme}.png`, fullPage: true});
    if (scheme === 'light') await page.pdf({path: `${screenshots}.pdf`});
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
