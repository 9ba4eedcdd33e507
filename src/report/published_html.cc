#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/published_accuracy.h"
#include "src/report/published_tables.h"

namespace stepcast::report {
namespace {

using validate::PublishedAccuracy;
using validate::PublishedOutcome;

// Told apart by people who see few colours, too (Paul Tol's muted scheme); sources beyond repeat
// it.
constexpr std::array kColours = {"#332288", "#cc6677", "#117733", "#ddcc77", "#88ccee",
                                 "#882255", "#44aa99", "#999933", "#aa4499"};
constexpr const char* ColourOf(std::size_t source) { return kColours[source % kColours.size()]; }

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

struct Dot {
  std::size_t source = 0;
  bool fit = false;
  double measured = 0, forecast = 0;
  std::string label;
};

// A number on a logarithmic axis, as "0.01", "10", "1000".
std::string TickOf(int power) {
  return power >= 0 ? fmt::format("1{}", std::string(static_cast<std::size_t>(power), '0'))
                    : fmt::format("{:.{}f}", std::pow(10.0, power), -power);
}

// Forecast over measured, both logarithmic, with the diagonal and 10 % on both sides of it.
std::string Plot(const std::string& title, const std::string& unit, const std::vector<Dot>& dots) {
  if (dots.empty()) return "";
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const Dot& dot : dots) {
    least = std::min({least, dot.measured, dot.forecast});
    most = std::max({most, dot.measured, dot.forecast});
  }
  const int low = static_cast<int>(std::floor(std::log10(least)));
  const int high = std::max(low + 1, static_cast<int>(std::ceil(std::log10(most))));
  constexpr double kSize = 520, kLeft = 70, kTop = 20;
  const auto along = [&](double value) { return (std::log10(value) - low) / (high - low) * kSize; };
  const auto x = [&](double value) { return kLeft + along(value); };
  const auto y = [&](double value) { return kTop + kSize - along(value); };
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" role=\"img\" aria-label=\"{}\">\n"
      "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" class=\"frame\"/>\n",
      kLeft + kSize + 20, kTop + kSize + 60, kLeft + kSize + 20, Escaped(title), kLeft, kTop, kSize,
      kSize);
  for (int power = low; power <= high; ++power) {
    const double value = std::pow(10.0, power);
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{0:.1f} {1:.1f}V{2:.1f}M{3:.1f} {4:.1f}H{5:.1f}\"/>\n"
        "<text x=\"{0:.1f}\" y=\"{6:.1f}\" text-anchor=\"middle\">{8}</text>\n"
        "<text x=\"{7:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\" dy=\"4\">{8}</text>\n",
        x(value), kTop, kTop + kSize, kLeft, y(value), kLeft + kSize, kTop + kSize + 18, kLeft - 8,
        TickOf(power));
  }
  const double from = std::pow(10.0, low), to = std::pow(10.0, high);
  svg += fmt::format("<path class=\"same\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", x(from),
                     y(from), x(to), y(to));
  constexpr double kTenth = 1.1;
  svg += fmt::format(
      "<path class=\"tenth\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n",
      x(from), y(from * kTenth), x(to / kTenth), y(to), x(from * kTenth), y(from), x(to),
      y(to / kTenth));
  for (const Dot& dot : dots) {
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" stroke=\"{}\" fill=\"{}\"><title>{}</title>"
        "</circle>\n",
        x(dot.measured), y(dot.forecast), ColourOf(dot.source),
        dot.fit ? "none" : ColourOf(dot.source), Escaped(dot.label));
  }
  svg += fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">measured, {}</text>\n"
      "<text transform=\"translate(16 {:.1f}) rotate(-90)\" text-anchor=\"middle\">forecast, "
      "{}</text>\n</svg>\n",
      kLeft + kSize / 2, kTop + kSize + 44, unit, kTop + kSize / 2, unit);
  return fmt::format("<h2>{}</h2>\n{}", Escaped(title), svg);
}

std::string Plots(const PublishedAccuracy& accuracy) {
  std::vector<Dot> times, memories;
  std::vector<bool> shown(accuracy.sources.size());
  for (const PublishedOutcome& outcome : accuracy.outcomes) {
    if (!outcome.simulated()) continue;
    const scenario::PublishedCase& row = accuracy.CaseOf(outcome);
    const bool fit = row.split == scenario::Split::kFit;
    const std::string who =
        fmt::format("{}, {}: {} on {} {}", accuracy.sources[outcome.source].name, row.name,
                    outcome.model, outcome.devices, outcome.gpu);
    if (row.step_time) {
      times.push_back({outcome.source, fit, row.step_time->seconds(), outcome.forecast.seconds(),
                       fmt::format("{}: measured {}, forecast {}", who, FormatTime(*row.step_time),
                                   FormatTime(outcome.forecast))});
      shown[outcome.source] = true;
    }
    for (const validate::MemoryOutcome& memory : outcome.memory) {
      constexpr double kGib = 1024.0 * 1024 * 1024;
      memories.push_back({outcome.source, fit, static_cast<double>(memory.measured.count()) / kGib,
                          static_cast<double>(memory.forecast.count()) / kGib,
                          fmt::format("{}: {} {}, forecast {}", who, scenario::Name(memory.kind),
                                      FormatBytes(memory.measured), FormatBytes(memory.forecast))});
      shown[outcome.source] = true;
    }
  }
  std::string legend = "<p class=\"legend\">";
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (!shown[i]) continue;
    legend += fmt::format("<span style=\"color:{}\">&#9679;</span> {} ", ColourOf(i),
                          Escaped(accuracy.sources[i].name));
  }
  legend +=
      "<br>Full dots: check rows; empty ones: fit rows. Lines: forecast as measured, and 10 % "
      "either way.</p>\n";
  return legend + Plot("Step time", "s", times) + Plot("Peak memory", "GiB", memories);
}

constexpr const char* kHead =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<title>Published training steps, forecast</title>\n<style>\n"
    "body{font:15px/1.45 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em}\n"
    "table{border-collapse:collapse;margin:1em 0}\n"
    "th,td{padding:.15em .7em;text-align:right;border-bottom:1px solid #ddd}\n"
    ".left{text-align:left}\n"
    "svg{max-width:100%;height:auto}svg text{font-size:13px}\n"
    ".frame{fill:none;stroke:#888}.grid{stroke:#e4e4e4}.same{stroke:#444}\n"
    ".tenth{stroke:#444;stroke-dasharray:4 4}\n"
    "</style>\n</head>\n<body>\n<h1>Published training steps, forecast</h1>\n";

}  // namespace

std::string PublishedAccuracyHtml(const PublishedAccuracy& accuracy) {
  std::string out = kHead;
  out += fmt::format("<p>{}</p>\n<p>{}</p>\n", Escaped(PublishedPreface()),
                     Escaped(PublishedCounts(accuracy)));
  out += Plots(accuracy);
  for (const PublishedTable& table : PublishedTables(accuracy)) {
    out += fmt::format("<h2>{}</h2>\n<table>\n<tr>", Escaped(table.title));
    const auto cell = [&](std::size_t column, const char* element, const std::string& text) {
      const bool left = table.columns[column].align == Align::kLeft;
      out += fmt::format("<{}{}>{}</{}>", element, left ? " class=\"left\"" : "", Escaped(text),
                         element);
    };
    for (std::size_t i = 0; i < table.columns.size(); ++i) cell(i, "th", table.columns[i].heading);
    out += "</tr>\n";
    for (const auto& row : table.rows) {
      out += "<tr>";
      for (std::size_t i = 0; i < row.size(); ++i) cell(i, "td", row[i]);
      out += "</tr>\n";
    }
    out += "</table>\n";
    if (!table.note.empty()) out += fmt::format("<p>{}</p>\n", Escaped(table.note));
  }
  out += "<h2>Sources</h2>\n<ul>\n";
  for (const scenario::PublishedSource& source : accuracy.sources) {
    out += fmt::format("<li>{}: {}. {}. Rows: {}.", Escaped(source.name), Escaped(source.source),
                       Escaped(source.machine), Escaped(source.rule));
    for (const std::string& note : source.notes) out += fmt::format("<br>{}.", Escaped(note));
    out += "</li>\n";
  }
  return out + "</ul>\n</body>\n</html>\n";
}

}  // namespace stepcast::report
