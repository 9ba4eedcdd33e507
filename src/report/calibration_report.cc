#include <cmath>
#include <cstdint>
#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/answer.h"
#include "src/report/hardware_reports.h"

namespace stepcast::report {
namespace {

using enum Align;

Time AsTime(double seconds) {
  constexpr double kPicosecondsPerSecond = 1e12;
  return Picoseconds(std::llround(seconds * kPicosecondsPerSecond));
}

double BytesPerSecond(const calibrate::Fitted& fit) {
  return fit.per_unit > 0 ? 1 / fit.per_unit : 0;
}

std::string Rate(const calibrate::Fitted& fit) {
  if (fit.per_unit <= 0) return "-";
  return FormatBandwidth(
      Bandwidth::BytesPerSecond(static_cast<std::int64_t>(std::llround(BytesPerSecond(fit)))));
}

Cell Percentage(double part) { return {fmt::format("{:.1f} %", 100 * part), Json(part)}; }
Cell Slowdown(double factor) { return {fmt::format("{:.2f} x", factor), Json(factor)}; }

AnswerTable Fits(const calibrate::Outcome& measured) {
  AnswerTable table{{{"time against bytes", "of", kLeft},
                     {"points", "points"},
                     {"start", "start_s"},
                     {"rate", "bytes_per_s"},
                     {"error of fit", "residual"}}};
  for (const calibrate::Fitted& fit : measured.fits) {
    table.Add({fit.what, Plain(fit.points), Cell(FormatTime(AsTime(fit.start)), fit.start),
               Cell(Rate(fit), BytesPerSecond(fit)), Percentage(fit.residual)});
  }
  return table;
}

AnswerTable Residuals(const calibration::Calibration& profile) {
  AnswerTable table{{{"precision of", "", kLeft},
                     {"spread", "spread"},
                     {"interpolation error", "interpolation"}}};
  for (const calibration::Residual& residual : profile.residuals) {
    table.Add({residual.of, Percentage(residual.spread), Percentage(residual.interpolation)});
  }
  return table;
}

AnswerTable Interference(const calibration::Calibration& profile) {
  AnswerTable table{{{"running together", "", kLeft},
                     {"", "kernel"},
                     {"", "collective"},
                     {"kernel slowdown", "kernel_slowdown"},
                     {"collective slowdown", "collective_slowdown"}}};
  for (const calibration::Interference& entry : profile.interference) {
    table.Add({fmt::format("{} and {}", Name(entry.kernel), Name(entry.collective)),
               Name(entry.kernel), Name(entry.collective), Slowdown(entry.kernel_slowdown),
               Slowdown(entry.collective_slowdown)});
  }
  return table;
}

AnswerTable Collectives(const calibration::Calibration& profile) {
  AnswerTable table{Keys("collective ranks nodes points largest_bytes")};
  for (const calibration::CollectiveTable& one : profile.collectives) {
    table.Add({Name(one.collective), one.ranks, one.nodes, one.points.size(),
               one.points.back().first.count()});
  }
  return table;
}

}  // namespace

std::string CalibrationText(const std::string& path, const calibrate::Outcome& measured) {
  const calibration::Calibration& profile = measured.profile;
  std::string text = fmt::format("profile '{}' written to {}\n", profile.name, path);
  if (profile.kernels) {
    text +=
        fmt::format("kernels: start {}, issue {}; collectives: issue {}\n",
                    FormatTime(profile.kernels->start_latency), FormatTime(profile.kernels->launch),
                    FormatTime(profile.kernels->collective_launch));
  }
  for (const AnswerTable& table : {Fits(measured), Interference(profile), Residuals(profile)}) {
    if (!table.rows.empty()) text += "\n" + table.Text();
  }
  return text;
}

std::string CalibrationJson(const std::string& path, const calibrate::Outcome& measured,
                            double seconds) {
  const calibration::Calibration& profile = measured.profile;
  Json provenance = Json::object();
  for (const auto& [key, value] : profile.provenance) provenance[key] = value;
  Json residuals = Json::object(), rows = Residuals(profile).ToJson();
  for (std::size_t i = 0; i < profile.residuals.size(); ++i) {
    residuals[profile.residuals[i].of] = rows[i];
  }
  return Text(Json{
      {"stepcast", 1},
      {"profile", path},
      {"name", profile.name},
      {"provenance", std::move(provenance)},
      {"fits", Fits(measured).ToJson()},
      {"collectives", Collectives(profile).ToJson()},
      {"interference", Interference(profile).ToJson()},
      {"residuals", std::move(residuals)},
      {"warnings", measured.warnings},
      {"run", {{"seconds", seconds}}},
  });
}

}  // namespace stepcast::report
