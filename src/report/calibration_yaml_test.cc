#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/report/answers.h"
#include "src/scenario/calibration_file.h"

namespace stepcast::report {
namespace {

using calibration::Calibration;
using calibration::Curve;
using calibration::GemmSurface;

std::optional<Calibration> ReadBack(const std::string& text, Diagnostics& diagnostics) {
  const auto root = scenario::ParseDocument(text, "profile.yaml", diagnostics);
  return root ? scenario::ReadCalibration(*root, diagnostics) : std::nullopt;
}

std::int64_t Between(std::int64_t least, std::int64_t most) {
  return *rc::gen::inRange<std::int64_t>(least, most + 1);
}

// Times of all magnitudes, so that all units occur.
Time AnyTime(std::int64_t most_microseconds = 1'000'000) {
  const Time units[] = {Picoseconds(1), Nanoseconds(1), Microseconds(1)};
  return Between(1, most_microseconds) * units[Between(0, 2)];
}

double AnyEfficiency() { return static_cast<double>(Between(1, 10'000)) / 10'000; }

// Ascending sizes and times.
Curve AnyCurve() {
  Curve curve;
  const std::int64_t points = Between(0, 6);
  for (std::int64_t i = 0; i < points; ++i) {
    const Bytes before = curve.empty() ? Bytes() : curve.back().first;
    const Time time = curve.empty() ? Time() : curve.back().second;
    curve.emplace_back(before + Bytes(Between(1, 1 << 22)), time + AnyTime());
  }
  return curve;
}

std::vector<std::int64_t> AnyAxis() {
  std::vector<std::int64_t> axis = {Between(1, 64)};
  const std::int64_t more = Between(0, 2);
  for (std::int64_t i = 0; i < more; ++i) axis.push_back(axis.back() + Between(1, 4096));
  return axis;
}

calibration::AttentionSurface AnyCores() {
  calibration::AttentionSurface surface;
  for (const std::int64_t head_size : AnyAxis()) {
    for (const std::int64_t heads : AnyAxis()) {
      calibration::AttentionCurve curve{.head_size = head_size, .heads = heads, .points = {}};
      for (const auto& [bytes, time] : AnyCurve()) curve.points.emplace_back(bytes.count(), time);
      if (!curve.points.empty()) surface.push_back(std::move(curve));
    }
  }
  return surface;
}

GemmSurface AnySurface() {
  if (Between(0, 1) == 0) return {};
  GemmSurface surface{.m = AnyAxis(), .n = AnyAxis(), .k = AnyAxis(), .times = {}};
  const std::size_t count = surface.m.size() * surface.n.size() * surface.k.size();
  for (std::size_t i = 0; i < count; ++i) surface.times.push_back(AnyTime());
  return surface;
}

calibration::KernelCosts AnyKernels() {
  calibration::KernelCosts kernels;
  kernels.memory_curve = AnyCurve();
  kernels.optimizer_curve = AnyCurve();
  for (std::size_t type = 0; type < 4; ++type) {
    kernels.gemm_surface[type] = AnySurface();
    if (!kernels.gemm_surface[type].empty()) {
      kernels.gemm_input_gradient_surface[type] = AnySurface();
      kernels.gemm_weight_gradient_surface[type] = AnySurface();
    }
    kernels.attention_forward_surface[type] = AnyCores();
    kernels.attention_backward_surface[type] = AnyCores();
  }
  if (!kernels.measured() || Between(0, 1) == 0) {
    kernels.gemm[static_cast<std::size_t>(Between(0, 3))] = {
        AnyEfficiency(), static_cast<double>(Between(0, 1'000'000'000))};
    if (Between(0, 1) == 0) {
      const auto tiled = static_cast<std::size_t>(Between(0, 3));
      kernels.gemm[tiled] = {};
      kernels.gemm_tiling[tiled] = {.tiles = {{256, 128, AnyEfficiency()}, {64, 64, 0.5}},
                                    .fill = static_cast<double>(Between(0, 300)),
                                    .add_fill = static_cast<double>(Between(0, 300)),
                                    .grouped = AnyEfficiency(),
                                    .start = AnyTime(1000)};
      kernels.attention[0] = {AnyEfficiency(), AnyEfficiency(), 0,
                              static_cast<double>(Between(0, 100'000))};
      kernels.power = {.idle = 100,
                       .products = static_cast<double>(Between(1, 2000)),
                       .memory = Between(0, 1) * 400.0};
      kernels.traffic[1 + static_cast<std::size_t>(Between(0, 4))] = 0.5;
      kernels.token_sum_time = AnyTime(100);
      kernels.variation = 0.015;
      kernels.jitter = 0.02;
    }
    kernels.attention_forward_efficiency = AnyEfficiency();
    kernels.attention_backward_efficiency = AnyEfficiency();
    kernels.memory_efficiency = AnyEfficiency();
  }
  kernels.start_latency = AnyTime(1000);
  kernels.launch = AnyTime(100'000);
  kernels.collective_launch = AnyTime(100'000);
  return kernels;
}

std::vector<calibration::CollectiveTable> AnyTables() {
  std::vector<calibration::CollectiveTable> tables;
  for (CollectiveKind kind : kProgramCollectiveKinds) {
    calibration::CollectiveTable table;
    table.collective = kind;
    table.points = AnyCurve();
    if (table.points.empty()) continue;
    table.ranks = static_cast<int>(Between(2, 64));
    table.nodes = static_cast<int>(Between(1, table.ranks));
    if (Between(0, 1) == 0) {
      for (const auto& [size, time] : table.points) {
        table.quantiles.emplace_back(time, time + AnyTime());
      }
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

Calibration AnyProfile() {
  Calibration profile;
  profile.name = "a \"name\" with \\ in it: # and more";
  for (std::int64_t i = Between(0, 3); i > 0; --i) profile.gpus.push_back(fmt::format("gpu-{}", i));
  profile.provenance = {{"machine", "two boxes, 'quoted'"}, {"when", "2026-05-01"}};
  if (Between(0, 3) != 0) profile.kernels = AnyKernels();
  if (Between(0, 1) == 0) {
    calibration::LinkCosts links;
    links.nvlink_efficiency = AnyEfficiency();
    links.pcie_efficiency = AnyEfficiency();
    links.network_efficiency = AnyEfficiency();
    for (Time* time : {&links.ring_base, &links.tree_base, &links.ring_nvlink_hop,
                       &links.ring_pcie_hop, &links.ring_network_hop, &links.tree_nvlink_hop,
                       &links.tree_pcie_hop, &links.tree_network_hop}) {
      *time = AnyTime(100'000);
    }
    profile.links = links;
  }
  if (Between(0, 1) == 0) {
    profile.memory = calibration::MemoryCosts{Bytes(Between(0, 1 << 30)), Bytes(Between(0, 9)),
                                              MiB(Between(0, 999)), KiB(Between(0, 999))};
  }
  profile.copies = {AnyCurve(), AnyCurve(), AnyCurve(), 1 + AnyEfficiency()};
  profile.collectives = AnyTables();
  if (Between(0, 1) == 0) {
    profile.interference = {{.kernel = calibration::Neighbour::kMemoryBound,
                             .collective = CollectiveKind::kReduceScatter,
                             .kernel_slowdown = 1 + AnyEfficiency(),
                             .collective_slowdown = 1 + AnyEfficiency()}};
    profile.residuals = {{"gemm", AnyEfficiency(), AnyEfficiency() / 1e6}};
  }
  return profile;
}

RC_GTEST_PROP(CalibrationYamlTest, IsReadBackToTheSameValues, ()) {
  const Calibration wrote = AnyProfile();
  const std::string text = CalibrationYaml(wrote);
  Diagnostics diagnostics;
  const std::optional<Calibration> read = ReadBack(text, diagnostics);
  if (!read) RC_FAIL(Format(diagnostics) + text);
  RC_ASSERT(read->name == wrote.name);
  RC_ASSERT(read->gpus == wrote.gpus);
  RC_ASSERT(read->provenance == wrote.provenance);
  RC_ASSERT(read->copies == wrote.copies);
  RC_ASSERT(read->interference == wrote.interference);
  RC_ASSERT(read->residuals == wrote.residuals);
  RC_ASSERT(read->kernels.has_value() == wrote.kernels.has_value());
  if (read->kernels) {
    RC_ASSERT(read->kernels->gemm == wrote.kernels->gemm);
    RC_ASSERT(read->kernels->gemm_tiling == wrote.kernels->gemm_tiling);
    RC_ASSERT(read->kernels->attention == wrote.kernels->attention);
    RC_ASSERT(read->kernels->power == wrote.kernels->power);
    RC_ASSERT(read->kernels->traffic == wrote.kernels->traffic);
    RC_ASSERT(read->kernels->token_sum_time == wrote.kernels->token_sum_time);
    RC_ASSERT(read->kernels->variation == wrote.kernels->variation);
    RC_ASSERT(read->kernels->jitter == wrote.kernels->jitter);
    RC_ASSERT(read->kernels->gemm_surface == wrote.kernels->gemm_surface);
    RC_ASSERT(read->kernels->gemm_input_gradient_surface ==
              wrote.kernels->gemm_input_gradient_surface);
    RC_ASSERT(read->kernels->gemm_weight_gradient_surface ==
              wrote.kernels->gemm_weight_gradient_surface);
    RC_ASSERT(read->kernels->attention_forward_surface == wrote.kernels->attention_forward_surface);
    RC_ASSERT(read->kernels->attention_backward_surface ==
              wrote.kernels->attention_backward_surface);
    RC_ASSERT(read->kernels->memory_curve == wrote.kernels->memory_curve);
    RC_ASSERT(read->kernels->optimizer_curve == wrote.kernels->optimizer_curve);
    RC_ASSERT(read->kernels->launch == wrote.kernels->launch);
  }
  RC_ASSERT(read->collectives.size() == wrote.collectives.size());
  for (std::size_t i = 0; i < wrote.collectives.size(); ++i) {
    RC_ASSERT(read->collectives[i].points == wrote.collectives[i].points);
    RC_ASSERT(read->collectives[i].quantiles == wrote.collectives[i].quantiles);
    RC_ASSERT(read->collectives[i].ranks == wrote.collectives[i].ranks);
  }
  // The text covers the rest (links, memory, the figures of kernels).
  RC_ASSERT(CalibrationYaml(*read) == text);
}

TEST(CalibrationYamlTest, LaysRowsOutInColumns) {
  Calibration profile;
  profile.name = "box";
  profile.provenance = {{"machine", "a\nb"}};
  calibration::CollectiveTable table;
  table.ranks = 4;
  table.nodes = 2;
  table.points = {{KiB(4), Microseconds(1800)}, {MiB(1), Nanoseconds(13'140'500)}};
  profile.collectives = {table};
  EXPECT_EQ(CalibrationYaml(profile), R"(# Written by 'stepcast calibrate'. Format: docs/formats.md.
name: "box"
provenance:
  "machine": "a\nb"
collectives:
  - collective: all_reduce
    ranks: 4
    nodes: 2
    points:
      - [4 KiB,     1800 us]
      - [1 MiB, 13140500 ns]
)");
}

TEST(CalibrationYamlTest, SectionsReplaceThoseOfTheirNames) {
  EXPECT_EQ(WithSections("# a machine\nname: a\nkernels:\n  x: 1\n# about links\nlinks:\n  y: 2\n",
                         "kernels:\n  x: 3\n# Written by a command\nruns:\n  z: 4\n"),
            "# a machine\nname: a\nkernels:\n  x: 3\n# about links\nlinks:\n  y: 2\n"
            "# Written by a command\nruns:\n  z: 4\n");
}

}  // namespace
}  // namespace stepcast::report
