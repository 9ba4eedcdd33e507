#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/forecast/training_run.h"
#include "src/report/page.h"
#include "src/report/pages.h"
#include "src/report/step_figures.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#59636e;--line:#d1d9e0;--card:#fff;--page:#f6f8fa;
--bar:#2f6fdb;--mark:#d1590a;--good:#1a7f37}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9198a1;--line:#3d444d;--card:#151b23;
--page:#0d1117;--bar:#4c8dff;--mark:#f0883e;--good:#3fb950}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:1120px;margin:0 auto;padding:32px 20px 48px}
h1{font-size:28px;margin:0 0 4px}
p{margin:0 0 8px;color:var(--soft)}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(320px,1fr));gap:16px;margin-top:24px}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:16px 18px}
.card h2{font-size:19px;margin:0}
.card a{color:inherit}
.card p{font-size:13px;line-height:1.4}
.error{float:right;font-weight:600;font-variant-numeric:tabular-nums}
.error.near{color:var(--good)}
dl{display:grid;grid-template-columns:auto 1fr auto;gap:4px 10px;margin:12px 0;font-size:14px;
align-items:center}
dt{color:var(--soft)}
dd{margin:0;font-variant-numeric:tabular-nums}
.track{height:12px;background:var(--line);border-radius:3px;position:relative;overflow:hidden}
.track span{position:absolute;top:0;bottom:0;left:0;border-radius:3px}
.forecast{background:var(--bar)}
.published{background:var(--mark)}
)";

constexpr const char* kRule =
    "For each model, the page shows the published step on the most GPUs. If several steps use the "
    "same number of GPUs, the page shows the step with the most tokens per second. No profile was "
    "fitted to the shown steps.";

// A bar whose length is a fraction of `longest`.
std::string TimeBar(const char* kind, const char* label, Time time, Time longest) {
  return fmt::format(
      "<dt>{}</dt><dd class=\"track\"><span class=\"{}\" style=\"width:{:.1f}%\"></span></dd>"
      "<dd>{}</dd>\n",
      label, kind, kHundred * (time / longest), HtmlEscaped(FormatTime(time)));
}

std::string Card(const GalleryStep& step) {
  constexpr double kNear = 0.05;
  const Time longest = std::max(step.published, step.forecast.step_time);
  std::string title = HtmlEscaped(step.title);
  if (!step.page.empty())
    title = fmt::format("<a href=\"{}\">{}</a>", HtmlEscaped(step.page), title);
  std::string out = fmt::format(
      "<section class=\"card\"><span class=\"error{}\">{} %</span><h2>{}</h2>\n"
      "<p>{}<br>{}</p>\n<dl>\n{}{}</dl>\n",
      std::abs(step.error()) <= kNear ? " near" : "", Signed(kHundred * step.error(), 1), title,
      HtmlEscaped(step.machine), HtmlEscaped(step.plan),
      TimeBar("forecast", "forecast", step.forecast.step_time, longest),
      TimeBar("published", "published", step.published, longest));
  if (const auto& range = step.forecast.step_time_range) {
    out += fmt::format("<p>Range of the forecast: {} to {}</p>\n",
                       HtmlEscaped(FormatTime(range->low)), HtmlEscaped(FormatTime(range->high)));
  }
  for (const std::string& difference : step.stand_ins) {
    out += fmt::format("<p>{}</p>\n", HtmlEscaped(difference));
  }
  return out + fmt::format("<p>Published: {} ({})</p>\n</section>\n", HtmlEscaped(step.source),
                           HtmlEscaped(step.row));
}

double MeanError(const std::vector<GalleryStep>& steps) {
  double sum = 0;
  for (const GalleryStep& step : steps) sum += std::abs(step.error());
  return steps.empty() ? 0 : sum / static_cast<double>(steps.size());
}

}  // namespace

void DescribeRun(const scenario::Scenario& scenario, GalleryStep& step) {
  for (const auto& [label, text] : ForecastFacts(scenario)) {
    if (label == "cluster") step.machine = text;
    if (label == "plan") step.plan = text;
  }
}

std::string GalleryText(const std::vector<GalleryStep>& steps) {
  Table table({{"run", Align::kLeft},
               {"GPUs"},
               {"published s"},
               {"forecast s"},
               {"error %"},
               {"row", Align::kLeft}});
  constexpr int kDigits = 2;
  for (const GalleryStep& step : steps) {
    table.AddRow({step.title, Grouped(TrainedStepOf(step.forecast).gpus),
                  Decimal(step.published.seconds(), kDigits),
                  Decimal(step.forecast.step_time.seconds(), kDigits),
                  Signed(kHundred * step.error(), 1), step.row});
  }
  return table.ToString() +
         fmt::format("mean error {} %\n{}\n", Decimal(kHundred * MeanError(steps), 1), kRule);
}

std::string GalleryPage(const std::vector<GalleryStep>& steps) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>stepcast: forecasts of well-known training runs</title>\n"
      "<style>{}</style></head>\n<body><main>\n<h1>Forecasts of well-known training runs</h1>\n"
      "<p>The time of one training step: forecast by stepcast, and published. The mean error is "
      "{} %.{}</p>\n<p>{}</p>\n<div class=\"cards\">\n",
      kStyle, Decimal(kHundred * MeanError(steps), 1),
      std::any_of(steps.begin(), steps.end(), [](const auto& step) { return !step.page.empty(); })
          ? " Each title opens the complete forecast."
          : "",
      kRule);
  for (const GalleryStep& step : steps) out += Card(step);
  return out + "</div>\n</main></body></html>\n";
}

}  // namespace stepcast::report
