#include <cmath>
#include <cstdint>
#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/hardware_reports.h"
#include "src/report/json.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

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

std::string Percentage(double part) { return fmt::format("{:.1f} %", 100 * part); }

std::string Fits(const calibrate::Outcome& measured) {
  if (measured.fits.empty()) return "";
  Table table({{"measured by bytes", Align::kLeft},
               {"points", Align::kRight},
               {"start", Align::kRight},
               {"rate", Align::kRight},
               {"off the line", Align::kRight}});
  for (const calibrate::Fitted& fit : measured.fits) {
    table.AddRow({fit.what, fmt::format("{}", fit.points), FormatTime(AsTime(fit.start)), Rate(fit),
                  Percentage(fit.residual)});
  }
  return "\n" + table.ToString();
}

std::string Residuals(const calibration::Calibration& profile) {
  if (profile.residuals.empty()) return "";
  Table table({{"how well known", Align::kLeft},
               {"spread", Align::kRight},
               {"off its neighbours", Align::kRight}});
  for (const calibration::Residual& residual : profile.residuals) {
    table.AddRow({residual.of, Percentage(residual.spread), Percentage(residual.interpolation)});
  }
  return "\n" + table.ToString();
}

std::string Interference(const calibration::Calibration& profile) {
  if (profile.interference.empty()) return "";
  Table table({{"side by side", Align::kLeft},
               {"kernel takes", Align::kRight},
               {"collective takes", Align::kRight}});
  for (const calibration::Interference& entry : profile.interference) {
    table.AddRow({fmt::format("{} and {}", Name(entry.kernel), Name(entry.collective)),
                  fmt::format("{:.2f} x", entry.kernel_slowdown),
                  fmt::format("{:.2f} x", entry.collective_slowdown)});
  }
  return "\n" + table.ToString();
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
  return text + Fits(measured) + Interference(profile) + Residuals(profile);
}

std::string CalibrationJson(const std::string& path, const calibrate::Outcome& measured,
                            double seconds) {
  const calibration::Calibration& profile = measured.profile;
  Json provenance = Json::object();
  for (const auto& [key, value] : profile.provenance) provenance[key] = value;
  Json fits = Json::array();
  for (const calibrate::Fitted& fit : measured.fits) {
    fits.push_back(Json{{"of", fit.what},
                        {"points", fit.points},
                        {"start_s", fit.start},
                        {"bytes_per_s", BytesPerSecond(fit)},
                        {"residual", fit.residual}});
  }
  Json tables = Json::array();
  for (const calibration::CollectiveTable& table : profile.collectives) {
    tables.push_back(Json{{"collective", Name(table.collective)},
                          {"ranks", table.ranks},
                          {"nodes", table.nodes},
                          {"points", table.points.size()},
                          {"largest_bytes", table.points.back().first.count()}});
  }
  Json interference = Json::array();
  for (const calibration::Interference& entry : profile.interference) {
    interference.push_back(Json{{"kernel", Name(entry.kernel)},
                                {"collective", Name(entry.collective)},
                                {"kernel_slowdown", entry.kernel_slowdown},
                                {"collective_slowdown", entry.collective_slowdown}});
  }
  Json residuals = Json::object();
  for (const calibration::Residual& residual : profile.residuals) {
    residuals[residual.of] =
        Json{{"spread", residual.spread}, {"interpolation", residual.interpolation}};
  }
  return Text(Json{
      {"stepcast", 1},
      {"profile", path},
      {"name", profile.name},
      {"provenance", std::move(provenance)},
      {"fits", std::move(fits)},
      {"collectives", std::move(tables)},
      {"interference", std::move(interference)},
      {"residuals", std::move(residuals)},
      {"warnings", measured.warnings},
      {"run", {{"seconds", seconds}}},
  });
}

}  // namespace stepcast::report
