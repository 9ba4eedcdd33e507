#include "src/report/page.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/report/page_assets.h"

namespace stepcast::report {

std::string HtmlEscaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '&'   ? "&amp;"
           : c == '<' ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '"' ? "&quot;"
                      : std::string(1, c);
  }
  return out;
}

namespace {

// JSON inside a script element, escaped so that its text cannot end the element.
std::string ScriptJson(const Json& json) {
  std::string out;
  for (const char c : OneLine(json)) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string TableHtml(const PageTable& given, const std::string& heading) {
  const std::vector<Column>& columns = given.table.columns();
  constexpr std::size_t kShort = 24;
  std::string out = fmt::format(
      "<div class=\"scroll{}\" tabindex=\"0\" role=\"region\" aria-label=\"Table: {}\"><table{}>\n",
      given.table.rows().size() <= kShort ? " short" : "", HtmlEscaped(given.caption),
      given.sortable ? " data-sortable" : "");
  // The caption is omitted if the summary of a collapsed table, or the section's heading, has the
  // same text.
  if (!given.folded && given.caption != heading)
    out += fmt::format("<caption>{}</caption>\n", HtmlEscaped(given.caption));
  out += "<thead><tr>";
  const auto cell = [&](const char* element, std::size_t column, const std::string& text,
                        const char* scope, bool stressed = false) {
    // Columns with longer texts get more width, to avoid one word per line.
    constexpr std::size_t kLong = 32;
    std::string kind = columns[column].align == Align::kRight ? ""
                       : text.size() > kLong                  ? "left long"
                                                              : "left";
    if (stressed) kind += kind.empty() ? "other" : " other";
    if (!kind.empty()) kind = fmt::format(" class=\"{}\"", kind);
    out += fmt::format("<{}{}{}>{}</{}>", element, scope, kind, HtmlEscaped(text), element);
  };
  for (std::size_t i = 0; i < columns.size(); ++i) {
    // A column without a heading has no heading cell, which a screen reader would read as empty.
    const bool empty = columns[i].heading.empty();
    cell(empty ? "td" : "th", i, columns[i].heading, empty ? "" : " scope=\"col\"");
  }
  out += "</tr></thead>\n<tbody>\n";
  bool after_rule = false;
  std::size_t number = 0;  // of the row
  for (const std::vector<std::string>& row : given.table.rows()) {
    if (row.empty()) {
      after_rule = true;
      continue;
    }
    out += after_rule ? "<tr class=\"sum\">" : "<tr>";
    after_rule = false;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i == 0) {
        cell("th", i, row[i], " scope=\"row\"");
      } else {
        cell("td", i, row[i], "", given.stressed.count({number, i}) > 0);
      }
    }
    out += "</tr>\n";
    ++number;
  }
  out += "</tbody></table></div>\n";
  if (!given.folded) return out;
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", HtmlEscaped(given.caption),
                     out);
}

std::string FoldedText(const PageText& text) {
  return fmt::format(
      "<details><summary>{0}</summary>\n<pre tabindex=\"0\" role=\"region\" "
      "aria-label=\"{0}\"{1}>{2}</pre></details>\n",
      HtmlEscaped(text.heading), text.is_command ? " data-command" : "", HtmlEscaped(text.text));
}

// The chart's script, below its controls.
std::string ChartHtml(const Chart& chart, std::size_t number) {
  Json tips = Json::array();
  for (const ChartTip& tip : chart.tips) {
    Json json{{"field", tip.field}, {"title", tip.title}};
    if (!tip.unit.empty()) json["unit"] = tip.unit;
    if (tip.digits) json["digits"] = *tip.digits;
    tips.push_back(std::move(json));
  }
  Json json{{"spec", chart.spec}, {"data", chart.data.ToJson()}, {"tips", std::move(tips)}};
  std::string tools;
  std::string keys = "Arrow keys move between values; Escape leaves the chart.";
  if (chart.window) {
    json["window"] = {chart.window->first, chart.window->second};
    if (chart.opened) json["opened"] = {chart.opened->first, chart.opened->second};
    json["tick"] = chart.tick;
    json["lanes"] = Json::array();
    for (const Chart::TimelineLane& lane : chart.lanes) {
      json["lanes"].push_back({{"name", lane.name}, {"bars", lane.bars}});
    }
    tools =
        "<div class=\"tools\" role=\"group\" aria-label=\"Zoom\"><button type=\"button\" "
        "data-do=\"in\">Zoom in</button><button type=\"button\" data-do=\"out\">Zoom "
        "out</button><button type=\"button\" data-do=\"earlier\">Earlier</button><button "
        "type=\"button\" data-do=\"later\">Later</button><button type=\"button\" "
        "data-do=\"whole\">Whole step</button><span class=\"hint\">Drag to move; use Ctrl and the "
        "mouse wheel to zoom</span></div>\n";
    keys =
        "Left and right move along a stream, up and down to another stream. Plus and minus zoom, "
        "page up and page down move the window, 0 shows the whole step, Escape leaves the chart.";
  }
  return fmt::format(
      "<figure data-chart=\"{0}\">\n{1}<div class=\"chart\" id=\"chart-{0}\" tabindex=\"0\" "
      "role=\"group\" aria-roledescription=\"chart\" aria-label=\"{2}\" "
      "aria-describedby=\"keys-{0}\"></div>\n"
      "<output class=\"readout\" aria-live=\"polite\"></output>\n"
      "<span id=\"keys-{0}\" class=\"skip\">{3}</span>\n"
      "<script type=\"application/json\">{4}</script>\n</figure>\n",
      number, tools, HtmlEscaped(chart.label), keys, ScriptJson(json));
}

bool HasCharts(const Page& page) {
  return std::any_of(page.sections.begin(), page.sections.end(),
                     [](const PageSection& section) { return section.chart.has_value(); });
}

// Whether the page has tables to sort or commands to copy.
bool HasControls(const Page& page) {
  return std::any_of(page.sections.begin(), page.sections.end(), [](const PageSection& section) {
    return std::any_of(section.tables.begin(), section.tables.end(),
                       [](const PageTable& table) { return table.sortable; }) ||
           std::any_of(section.texts.begin(), section.texts.end(),
                       [](const PageText& text) { return text.is_command; });
  });
}

// The scripts of the page and their hashes. Only charts need the libraries.
std::vector<std::pair<std::string_view, std::string_view>> Scripts(const Page& page) {
  if (HasCharts(page)) {
    return {{VegaScript(), VegaScriptHash()},
            {VegaLiteScript(), VegaLiteScriptHash()},
            {VegaEmbedScript(), VegaEmbedScriptHash()},
            {PageScript(), PageScriptHash()}};
  }
  if (HasControls(page)) return {{PageScript(), PageScriptHash()}};
  return {};
}

// The page's Content-Security-Policy, a protection against injected text. It allows only the
// scripts embedded at build time, and no network access. Vega compiles the charts' expressions
// (unsafe-eval) and sets inline styles.
std::string Policy(const Page& page) {
  std::string scripts;
  for (const auto& [script, hash] : Scripts(page)) scripts += fmt::format("'{}' ", hash);
  scripts += HasCharts(page) ? "'unsafe-eval'" : scripts.empty() ? "'none'" : "";
  return fmt::format(
      "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data:; base-uri "
      "'none'; form-action 'none'",
      scripts);
}

std::string Head(const Page& page) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"generator\" content=\"stepcast\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{}: {}</title>\n<style>\n{}</style>\n</head>\n<body>\n"
      "<a class=\"skip\" href=\"#content\">Skip to the answer</a>\n"
      "<header>\n<p class=\"kind\">{}</p>\n<h1>{}</h1>\n",
      Policy(page), HtmlEscaped(page.title), HtmlEscaped(page.kind), PageStyle(),
      HtmlEscaped(page.kind), HtmlEscaped(page.title));
}

const char* ClassOf(Tone tone) {
  return tone == Tone::kPlain ? "" : tone == Tone::kGood ? "good" : "bad";
}

std::string Answer(const Page& page) {
  std::string out;
  if (!page.asked.empty()) {
    out += "<dl class=\"asked\">\n";
    for (const auto& [what, text] : page.asked) {
      out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", HtmlEscaped(what), HtmlEscaped(text));
    }
    out += "</dl>\n";
  }
  out += "</header>\n<main id=\"content\">\n";
  if (!page.verdict.empty()) {
    out += fmt::format("<p class=\"verdict {}\">{}</p>\n", ClassOf(page.tone),
                       HtmlEscaped(page.verdict));
  }
  if (!page.answer.empty()) {
    out += "<ul class=\"answer\" aria-label=\"The answer\">\n";
    for (const PageFigure& figure : page.answer) {
      out +=
          fmt::format("<li class=\"{}\"><span class=\"label\">{}</span><b>{}</b>",
                      ClassOf(figure.tone), HtmlEscaped(figure.label), HtmlEscaped(figure.value));
      if (!figure.more.empty()) {
        out += fmt::format("<span class=\"more\">{}</span>", HtmlEscaped(figure.more));
      }
      out += "</li>\n";
    }
    out += "</ul>\n";
  }
  for (const std::string& warning : page.warnings) {
    out += fmt::format("<p class=\"warning\">{}</p>\n", HtmlEscaped(warning));
  }
  return out;
}

}  // namespace

double Rounded(double value) {
  constexpr double kMillion = 1e6;
  return std::round(value * kMillion) / kMillion;
}

double InMilliseconds(Time time) { return Rounded(time / stepcast::Milliseconds(1)); }

ChartData::Column& ChartData::At(std::string_view name) {
  for (Column& column : columns_) {
    if (column.name == name) return column;
  }
  columns_.push_back({.name = std::string(name)});
  return columns_.back();
}

void ChartData::Column::Add(const std::string& text, Json value) {
  const auto [place, is_new] = known.try_emplace(text, values.size());
  if (is_new) values.push_back(std::move(value));
  rows.push_back(place->second);
}

// Whether rows hold indices of values. For numbers, indices are shorter only if values repeat.
bool ChartData::Column::indexed() const {
  constexpr std::size_t kOften = 4;
  return has_words || rows.size() > kOften * values.size();
}

// One value for all rows, or a value for each row.
Json ChartData::Column::ToJson() const {
  if (values.size() == 1) return indexed() ? Json(0) : values.front();
  if (indexed()) return rows;
  Json all = Json::array();
  for (const std::size_t row : rows) all.push_back(values[row]);
  return all;
}

void ChartData::Number(std::string_view column, double value) {
  // Integers are written without a decimal point, which is shorter.
  constexpr double kExact = 9e15;
  const bool whole = value == std::floor(value) && std::abs(value) < kExact;
  At(column).Add(fmt::format("{}", value),
                 whole ? Json(static_cast<std::int64_t>(value)) : Json(value));
}

void ChartData::Missing(std::string_view column) { At(column).Add("", nullptr); }

void ChartData::Word(std::string_view name, const std::string& word) {
  Column& column = At(name);
  column.has_words = true;
  column.Add(word, word);
}

Json ChartData::ToJson() const {
  Json columns = Json::object(), values = Json::object();
  for (const Column& column : columns_) {
    STEPCAST_CHECK(column.rows.size() == rows(), "a row must have a value in every column");
    columns[column.name] = column.ToJson();
    if (column.indexed()) values[column.name] = column.values;
  }
  return Json{{"rows", rows()}, {"columns", std::move(columns)}, {"values", std::move(values)}};
}

std::string PageHtml(const Page& page) {
  std::string out = Head(page) + Answer(page);
  std::size_t number = 0;
  for (const PageSection& section : page.sections) {
    const std::size_t here = ++number;
    out +=
        fmt::format("<section aria-labelledby=\"section-{0}\">\n<h2 id=\"section-{0}\">{1}</h2>\n",
                    here, HtmlEscaped(section.heading));
    for (const std::string& text : section.paragraphs) {
      out += fmt::format("<p>{}</p>\n", HtmlEscaped(text));
    }
    if (section.chart) out += ChartHtml(*section.chart, here);
    for (const std::string& note : section.notes) {
      out += fmt::format("<p class=\"note\">{}</p>\n", HtmlEscaped(note));
    }
    for (const auto& [text, address] : section.links) {
      out += fmt::format("<p class=\"note\"><a href=\"{}\" rel=\"noreferrer\">{}</a></p>\n",
                         HtmlEscaped(address), HtmlEscaped(text));
    }
    for (const PageTable& table : section.tables) out += TableHtml(table, section.heading);
    for (const PageText& text : section.texts) out += FoldedText(text);
    out += "</section>\n";
  }
  if (!page.appendices.empty()) out += "<section>\n";
  for (const PageText& text : page.appendices) out += FoldedText(text);
  if (!page.appendices.empty()) out += "</section>\n";
  out +=
      "</main>\n<footer>\n<p>Written by stepcast. This page works without other files and without "
      "a network.</p>\n";
  if (HasCharts(page)) {
    out += fmt::format(
        "<noscript><p class=\"noscript\">The charts need JavaScript; the tables have the same "
        "content.</p></noscript>\n<details><summary>Licenses of the charting libraries in this "
        "page</summary>\n<pre tabindex=\"0\" role=\"region\" "
        "aria-label=\"Licenses\">{}</pre></details>\n",
        HtmlEscaped(ChartLicences()));
  }
  out += "</footer>\n";
  for (const auto& [script, hash] : Scripts(page)) {
    STEPCAST_CHECK(script.find("</script") == std::string_view::npos,
                   "a script must not contain the end tag of its element");
    out += fmt::format("<script>{}</script>\n", script);
  }
  return out + "</body>\n</html>\n";
}

}  // namespace stepcast::report
