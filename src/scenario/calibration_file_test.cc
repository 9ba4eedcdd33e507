#include "src/scenario/calibration_file.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/base/data_type.h"
#include "src/calibration/plausible.h"

namespace stepcast::scenario {
namespace {

using calibration::Calibration;

// "line:column code" of each, in order.
std::vector<std::string> Summary(const Diagnostics& diagnostics) {
  std::vector<std::string> lines;
  for (const Diagnostic& diagnostic : diagnostics) {
    lines.push_back(fmt::format("{}:{} {}", diagnostic.location.line, diagnostic.location.column,
                                diagnostic.code));
  }
  return lines;
}

std::optional<Calibration> Read(std::string_view text, Diagnostics& diagnostics) {
  const std::optional<Node> root = ParseDocument(text, "profile.yaml", diagnostics);
  return root ? ReadCalibration(*root, diagnostics) : std::nullopt;
}

std::vector<std::string> Mistakes(std::string_view text) {
  Diagnostics diagnostics;
  const bool read = Read(text, diagnostics).has_value();
  EXPECT_EQ(read, diagnostics.empty());
  return Summary(diagnostics);
}

using Lines = std::vector<std::string>;

constexpr std::string_view kWhole = R"(name: cluster
provenance: {machine: two boxes, when: "2026-05"}
kernels:
  gemm:
    bf16: {max_efficiency: 0.75, half_flops: 3000000000}
  attention_forward_efficiency: 0.5
  attention_backward_efficiency: 0.4
  memory_efficiency: 0.8
  start_latency: 2 us
  launch: 5 us
  collective_launch: 20 us
links:
  nvlink_efficiency: 0.824
  pcie_efficiency: 0.75
  network_efficiency: 0.92
  ring: {base: 8.4 us, nvlink_hop: 3.4 us, pcie_hop: 5.7 us, network_hop: 14 us}
  tree: {base: 8.5 us, nvlink_hop: 4 us, pcie_hop: 4.5 us, network_hop: 15 us}
memory:
  context: 512 MiB
  first_communicator: 717 MiB
  next_communicator: 0 B
  gemm_workspace: 8519680 B
collectives:
  - {collective: all_reduce, ranks: 4, nodes: 4, points: [[4 KiB, 1.8 ms], [1 MiB, 13.1 ms]]}
  - {collective: broadcast, ranks: 8, nodes: 1, points: [[1 MiB, 1 ms]]}
)";

// kWhole with `piece`, which must occur, replaced.
std::string With(std::string_view piece, std::string_view other) {
  std::string text(kWhole);
  const std::size_t at = text.find(piece);
  EXPECT_NE(at, std::string::npos) << piece;
  return text.replace(at, piece.size(), other);
}

TEST(CalibrationFileTest, ReadsWhatAFrameworksCodeTakesTheHost) {
  Diagnostics diagnostics;
  const auto profile = Read(
      With("links:\n", "host: {dispatch: {megatron: {module: 112 us, autograd: 28 us}}}\nlinks:\n"),
      diagnostics);
  ASSERT_TRUE(profile.has_value()) << Format(diagnostics);
  ASSERT_EQ(profile->dispatch.size(), 1u);
  EXPECT_EQ(profile->dispatch.at("megatron"),
            (Dispatch{.module = Microseconds(112), .autograd = Microseconds(28)}));
  EXPECT_EQ(Mistakes(With("links:\n", "host: {dispatch: {megatrom: {module: 1 us}}}\nlinks:\n")),
            Lines{"12:19 input.unknown-key"});
  EXPECT_EQ(Mistakes(With("links:\n",
                          "host: {dispatch: {ddp: {module: 2 s, autograd: 0 us}}}\nlinks:\n")),
            Lines{"12:33 calibration.implausible"});
}

TEST(CalibrationFileTest, ReadsEverySection) {
  Diagnostics diagnostics;
  const auto profile = Read(kWhole, diagnostics);
  ASSERT_TRUE(profile.has_value()) << Format(diagnostics);
  EXPECT_EQ(profile->name, "cluster");
  EXPECT_EQ(profile->location.file, "profile.yaml");
  EXPECT_EQ(profile->provenance, (std::vector<std::pair<std::string, std::string>>{
                                     {"machine", "two boxes"}, {"when", "2026-05"}}));
  ASSERT_TRUE(profile->kernels.has_value());
  EXPECT_EQ(profile->kernels->gemm[static_cast<std::size_t>(DataType::kBf16)],
            (calibration::GemmEfficiency{.max_efficiency = 0.75, .half_flops = 3e9}));
  EXPECT_EQ(profile->kernels->gemm[static_cast<std::size_t>(DataType::kFp8)],
            calibration::GemmEfficiency());
  EXPECT_EQ(profile->kernels->attention_backward_efficiency, 0.4);
  EXPECT_EQ(profile->kernels->collective_launch, Microseconds(20));
  ASSERT_TRUE(profile->links.has_value());
  EXPECT_EQ(profile->links->ring_base, Nanoseconds(8400));
  EXPECT_EQ(profile->links->tree_base, Nanoseconds(8500));
  EXPECT_EQ(profile->links->ring_pcie_hop, Nanoseconds(5700));
  EXPECT_EQ(profile->links->tree_network_hop, Microseconds(15));
  ASSERT_TRUE(profile->memory.has_value());
  EXPECT_EQ(profile->memory->first_communicator, MiB(717));
  EXPECT_EQ(profile->memory->gemm_workspace, Bytes(8519680));
  ASSERT_EQ(profile->collectives.size(), 2u);
  const calibration::CollectiveTable& table = profile->collectives[0];
  EXPECT_EQ(table.collective, CollectiveKind::kAllReduce);
  EXPECT_EQ(table.ranks, 4);
  EXPECT_EQ(table.nodes, 4);
  EXPECT_EQ(table.location.line, 24);
  EXPECT_EQ(table.points, (std::vector<std::pair<Bytes, Time>>{{KiB(4), Microseconds(1800)},
                                                               {MiB(1), Microseconds(13100)}}));
}

TEST(CalibrationFileTest, ReadsTilesGenerationsAndPower) {
  Diagnostics diagnostics;
  const auto profile = Read(With("    bf16: {max_efficiency: 0.75, half_flops: 3000000000}\n"
                                 "  attention_forward_efficiency: 0.5\n"
                                 "  attention_backward_efficiency: 0.4\n",
                                 "    bf16: {tiles: [[256, 128, 0.9], [64, 64, 0.5]], fill: 190,"
                                 " add_fill: 200, start: 5 us}\n"
                                 "  attention:\n"
                                 "    flash1: {forward: 0.3, backward: 0.2}\n"
                                 "    flash2: {forward: 0.6, backward: 0.5,"
                                 " forward_half_length: 7, backward_rows: 64, forward_tail: 0.8}\n"
                                 "  power: {idle_watts: 100, products_watts: 1300,"
                                 " memory_watts: 500}\n"
                                 "  traffic: {widening: 0.6, column_sum: 0.5}\n"
                                 "  token_sum_time: 50 ns\n"
                                 "  variation: 0.015\n"),
                            diagnostics);
  ASSERT_TRUE(profile.has_value()) << Format(diagnostics);
  const calibration::KernelCosts& kernels = *profile->kernels;
  EXPECT_EQ(kernels.gemm_tiling[static_cast<std::size_t>(DataType::kBf16)],
            (calibration::GemmTiling{.tiles = {{256, 128, 0.9}, {64, 64, 0.5}},
                                     .fill = 190,
                                     .add_fill = 200,
                                     .start = Microseconds(5)}));
  EXPECT_EQ(kernels.attention[0],
            (calibration::AttentionEfficiency{.forward = 0.3, .backward = 0.2}));
  EXPECT_EQ(kernels.attention[1].forward_half_length, 7);
  EXPECT_EQ(kernels.attention[1].forward_rows, 128);
  EXPECT_EQ(kernels.attention[1].backward_rows, 64);
  EXPECT_EQ(kernels.attention[1].forward_tail, 0.8);
  EXPECT_EQ(kernels.attention[2], calibration::AttentionEfficiency());
  EXPECT_EQ(kernels.power, (calibration::PowerDraw{.idle = 100, .products = 1300, .memory = 500}));
  EXPECT_EQ(kernels.traffic, (std::array<double, kAccessCount>{0, 0.6, 0, 0, 0, 0.5}));
  EXPECT_EQ(kernels.token_sum_time, Nanoseconds(50));
  EXPECT_EQ(kernels.variation, 0.015);
}

TEST(CalibrationFileTest, RefusesImpossibleTiles) {
  const auto tiles = [](std::string_view figures) {
    return Mistakes(With("{max_efficiency: 0.75, half_flops: 3000000000}", figures));
  };
  EXPECT_EQ(tiles("{tiles: [[256, 128, 1.2]], fill: 0, start: 5 us}"),
            Lines{"5:20 calibration.implausible"});
  EXPECT_EQ(tiles("{tiles: [[256, 128]], fill: 0, start: 5 us}"),
            Lines{"5:20 calibration.bad-point"});
  EXPECT_EQ(tiles("{tiles: [], fill: 0, start: 5 us}"), Lines{"5:19 calibration.no-points"});
  EXPECT_EQ(tiles("{tiles: [[256, 128, 0.9]], fill: 0, start: 5 s}"),
            Lines{"5:54 calibration.implausible"});
}

TEST(CalibrationFileTest, SectionsMayBeMissing) {
  Diagnostics diagnostics;
  const auto profile = Read("name: bare\nprovenance: {how: guessed}\n", diagnostics);
  ASSERT_TRUE(profile.has_value()) << Format(diagnostics);
  EXPECT_FALSE(profile->kernels || profile->links || profile->memory);
  EXPECT_TRUE(profile->collectives.empty());
}

TEST(CalibrationFileTest, NameAndProvenanceMayNot) {
  EXPECT_EQ(Mistakes("collectives: []\n"),
            (Lines{"1:1 input.missing-key", "1:1 input.missing-key"}));
  EXPECT_EQ(Mistakes("name: x\nprovenance: {}\n"), Lines{"2:13 calibration.no-provenance"});
  EXPECT_EQ(Mistakes("name: x\nprovenance: measured\n"), Lines{"2:13 input.wrong-kind"});
  EXPECT_EQ(Mistakes("name: x\nprovenance: {how: [a]}\n"), Lines{"2:19 input.wrong-kind"});
}

TEST(CalibrationFileTest, SectionsAreWhole) {
  EXPECT_EQ(Mistakes(With("  launch: 5 us\n", "")), Lines{"4:3 input.missing-key"});
  EXPECT_EQ(Mistakes(With("network_hop: 14 us", "net_hop: 14 us")),
            (Lines{"16:9 input.missing-key", "16:62 input.unknown-key"}));
}

TEST(CalibrationFileTest, TimesNeedUnitsAndEfficienciesStayBelowOne) {
  EXPECT_EQ(Mistakes(With("launch: 5 us", "launch: 5")), Lines{"10:11 input.bad-quantity"});
  EXPECT_EQ(Mistakes(With("memory_efficiency: 0.8", "memory_efficiency: 80")),
            Lines{"8:22 calibration.implausible"});
  EXPECT_EQ(Mistakes(With("max_efficiency: 0.75", "max_efficiency: 1.2")),
            Lines{"5:28 calibration.implausible"});
  EXPECT_EQ(Mistakes(With("base: 8.5 us", "base: 8.5 s")), Lines{"17:16 calibration.implausible"});
}

TEST(CalibrationFileTest, ADataTypeWithoutFiguresIsLeftOut) {
  EXPECT_EQ(Mistakes(With("{max_efficiency: 0.75, half_flops: 3000000000}",
                          "{max_efficiency: 0, half_flops: 0}")),
            Lines{"5:28 calibration.implausible"});
  EXPECT_EQ(Mistakes(With("\n    bf16: {max_efficiency: 0.75, half_flops: 3000000000}", " {}")),
            Lines{"4:9 calibration.no-gemm"});
  EXPECT_EQ(Mistakes(With("    bf16:", "    bf17:")), Lines{"5:5 input.unknown-key"});
}

TEST(CalibrationFileTest, PointsAscend) {
  EXPECT_EQ(
      Mistakes(With("[[4 KiB, 1.8 ms], [1 MiB, 13.1 ms]]", "[[4 MiB, 1.8 ms], [1 MiB, 13.1 ms]]")),
      Lines{"24:76 calibration.implausible"});
  EXPECT_EQ(Mistakes(With("[[1 MiB, 1 ms]]", "[]")), Lines{"25:57 calibration.implausible"});
}

TEST(CalibrationFileTest, APointIsASizeAndATime) {
  EXPECT_EQ(Mistakes(With("[[1 MiB, 1 ms]]", "[[1 MiB]]")), Lines{"25:58 calibration.bad-point"});
  EXPECT_EQ(Mistakes(With("[[1 MiB, 1 ms]]", "[[1 ms, 1 MiB]]")),
            (Lines{"25:59 input.bad-quantity", "25:65 input.bad-quantity"}));
  EXPECT_EQ(Mistakes(With("[[1 MiB, 1 ms]]", "[[-1 MiB, 1 ms]]")),
            Lines{"25:59 input.bad-quantity"});
}

TEST(CalibrationFileTest, TablesAreNotRepeated) {
  EXPECT_EQ(Mistakes(With("broadcast, ranks: 8, nodes: 1", "all_reduce, ranks: 4, nodes: 4")),
            Lines{"25:5 calibration.implausible"});
}

TEST(CalibrationFileTest, UnknownCollectives) {
  EXPECT_EQ(Mistakes(With("broadcast", "broadcats")), Lines{"25:18 input.unknown-word"});
}

TEST(CalibrationFileTest, ReportsUnreadableAndImplausibleValuesTogether) {
  std::string text = With("memory_efficiency: 0.8", "memory_efficiency: 8");
  text.replace(text.find("launch: 5 us"), 12, "launch: 5 ux");
  text.replace(text.find("ranks: 8"), 8, "ranks: x");
  text.replace(text.find("[1 MiB, 13.1 ms]"), 16, "[2 KiB, 13.1 ms]");
  EXPECT_EQ(Mistakes(text),
            (Lines{"10:11 input.bad-quantity", "25:36 input.not-an-integer",
                   "8:22 calibration.implausible", "24:76 calibration.implausible"}));
}

TEST(CalibrationFileTest, ReportsAMissingFile) {
  const auto profile = LoadCalibration("calibration/no-such-device.yaml");
  ASSERT_FALSE(profile.has_value());
  EXPECT_EQ(profile.error().size(), 1u);
}

class ShippedProfileTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ShippedProfileTest, IsWholeAndPlausible) {
  const auto profile = LoadCalibration(fmt::format("calibration/{}.yaml", GetParam()));
  ASSERT_TRUE(profile.has_value()) << Format(profile.error());
  EXPECT_EQ(profile->name, GetParam());
  EXPECT_TRUE(profile->kernels && profile->links && profile->memory);
  EXPECT_TRUE(calibration::Check(*profile).empty());
  // Every one of these devices multiplies in 16 bits, and none is faster than the best product that
  // was found: 87 % of the peak (A100 SXM). A tile that is never filled anew comes a little closer.
  const auto at = static_cast<std::size_t>(DataType::kFp16);
  double best = profile->kernels->gemm[at].max_efficiency;
  for (const calibration::GemmTile& tile : profile->kernels->gemm_tiling[at].tiles) {
    best = std::max(best, tile.efficiency);
  }
  EXPECT_GT(best, 0.35);
  EXPECT_LT(best, 0.9);
}

INSTANTIATE_TEST_SUITE_P(EveryGpu, ShippedProfileTest,
                         ::testing::Values("v100-sxm2-32gb", "a100-sxm-40gb", "a100-sxm-80gb",
                                           "a100-pcie-80gb", "h100-sxm", "h100-pcie", "h800-sxm",
                                           "h200", "b200", "gb200", "b300", "gb300", "l40s",
                                           "mi300x"));

constexpr std::string_view kMeasured = R"(name: board
provenance: {machine: one board}
kernels:
  start_latency: 2 us
  launch: 5 us
  collective_launch: 20 us
  gemm_surface:
    bf16:
      - [64, 64, 128, 3 us]
      - [64, 64,  64, 2 us]
      - [256, 64, 64, 4 us]
      - [256, 64, 128, 7 us]
  gemm_weight_gradient_surface: {bf16: [[64, 64, 64, 5 us]]}
  attention_forward_surface:
    bf16: [[16, 1024, 64, 13 us], [16, 512, 64, 9 us], [128, 512, 64, 20 us], [16, 512, 32, 8 us]]
  memory_curve: [[1 KiB, 2 us], [1 MiB, 4 us]]
copies:
  host_to_device: [[1 MiB, 50 us]]
collectives:
  - {collective: all_gather, ranks: 2, nodes: 1, points: [[1 KiB, 2 us]], quantiles: [[1 us, 3 us]]}
interference:
  - {kernel: gemm, collective: all_gather, kernel_slowdown: 1.25, collective_slowdown: 1}
residuals:
  gemm: {spread: 0.01, interpolation: 0.02}
)";

TEST(CalibrationFileTest, ReadsMeasurementsWithoutEfficiencies) {
  Diagnostics diagnostics;
  const std::optional<Calibration> profile = Read(kMeasured, diagnostics);
  ASSERT_TRUE(profile) << Format(diagnostics);
  const calibration::KernelCosts& kernels = *profile->kernels;
  EXPECT_TRUE(kernels.measured());
  EXPECT_EQ(kernels.memory_efficiency, 0);
  const calibration::GemmSurface& surface =
      kernels.gemm_surface[static_cast<std::size_t>(DataType::kBf16)];
  EXPECT_EQ(surface.m, (std::vector<std::int64_t>{64, 256}));
  EXPECT_EQ(surface.n, (std::vector<std::int64_t>{64}));
  EXPECT_EQ(surface.k, (std::vector<std::int64_t>{64, 128}));
  EXPECT_EQ(surface.times, (std::vector<Time>{Microseconds(2), Microseconds(3), Microseconds(4),
                                              Microseconds(7)}));
  EXPECT_EQ(kernels.SurfaceOf(DataType::kBf16, ProductLayout::kWeightGradient).times,
            std::vector<Time>{Microseconds(5)});
  EXPECT_EQ(kernels.SurfaceOf(DataType::kBf16, ProductLayout::kInputGradient), surface);
  // By head size, heads and sequence.
  const calibration::AttentionSurface& cores =
      kernels.attention_forward_surface[static_cast<std::size_t>(DataType::kBf16)];
  ASSERT_EQ(cores.size(), 3u);
  EXPECT_EQ(cores[0].head_size, 32);
  EXPECT_EQ(cores[1].heads, 16);
  EXPECT_EQ(cores[1].points, (std::vector<std::pair<std::int64_t, Time>>{
                                 {512, Microseconds(9)}, {1024, Microseconds(13)}}));
  EXPECT_EQ(cores[2].heads, 128);
  EXPECT_EQ(kernels.memory_curve.back(), std::pair(MiB(1), Microseconds(4)));
  EXPECT_EQ(profile->copies.host_to_device.size(), 1u);
  EXPECT_EQ(profile->collectives[0].quantiles[0], std::pair(Microseconds(1), Microseconds(3)));
  EXPECT_EQ(profile->interference[0].kernel_slowdown, 1.25);
  EXPECT_EQ(profile->residuals[0].interpolation, 0.02);
}

// kMeasured with `from`, which must occur, replaced by `to`.
std::string Changed(std::string_view from, std::string_view to) {
  std::string text(kMeasured);
  return text.replace(text.find(from), from.size(), to);
}

TEST(CalibrationFileTest, RefusesAttentionTwice) {
  EXPECT_EQ(Mistakes(Changed("[16, 1024, 64, 13 us]", "[16, 512, 64, 13 us]")),
            (Lines{"15:34 calibration.repeated-point"}));
  EXPECT_EQ(Mistakes(Changed("[16, 1024, 64, 13 us]", "[1024, 64, 13 us]")),
            (Lines{"15:12 calibration.bad-point"}));
}

TEST(CalibrationFileTest, RefusesGradientsProductsAlone) {
  EXPECT_EQ(Mistakes(Changed("gemm_weight_gradient_surface: {bf16",
                             "gemm_input_gradient_surface: {fp16")),
            (Lines{"13:32 calibration.incomplete-surface"}));
}

TEST(CalibrationFileTest, RefusesSurfacesWithHoles) {
  EXPECT_EQ(Mistakes(Changed("      - [64, 64,  64, 2 us]\n", "")),
            (Lines{"9:7 calibration.incomplete-surface"}));
  EXPECT_EQ(Mistakes(Changed("[64, 64,  64, 2 us]", "[64, 64, 128, 2 us]")),
            (Lines{"10:9 calibration.incomplete-surface"}));
  EXPECT_EQ(Mistakes(Changed("[64, 64,  64, 2 us]", "[64, 64, 2 us]")),
            (Lines{"10:9 calibration.bad-point"}));
  EXPECT_EQ(Mistakes(Changed("[64, 64,  64, 2 us]", "[64, 64, 64, 0 us]")),
            (Lines{"10:22 input.out-of-range"}));
}

TEST(CalibrationFileTest, RefusesUnalignedBatchesWithoutARate) {
  EXPECT_EQ(Mistakes(Changed("kernels:\n", "kernels:\n  batched_unaligned: [{torch: \"1.13\"}]\n")),
            (Lines{"4:23 calibration.no-points"}));
  EXPECT_EQ(Mistakes(Changed("kernels:\n",
                             "kernels:\n  batched_unaligned: [{fp16: 0.5}, {fp16: 0.6}]\n")),
            (Lines{"4:36 calibration.repeated-point"}));
  // A rate that cannot be read is reported once.
  EXPECT_EQ(Mistakes(Changed("kernels:\n", "kernels:\n  batched_unaligned: [{fp16: fast}]\n")),
            (Lines{"4:30 input.not-a-number"}));
}

TEST(CalibrationFileTest, ReleasesSayWhatIsDifferentFromTheOneBefore) {
  Diagnostics diagnostics;
  const auto read = Read(Changed("kernels:\n",
                                 "kernels:\n"
                                 "  gemm_unaligned: 0.25\n"
                                 "  releases:\n"
                                 "    - {torch: \"2.8\", token_sum_time: 5 ns,\n"
                                 "       traffic: {mixed: 0.8}}\n"
                                 "    - {torch: \"2.11\", gemm_unaligned: 0.5,\n"
                                 "       gemm: {bf16: {max_efficiency: 0.9, half_flops: 7}}}\n"),
                         diagnostics);
  ASSERT_TRUE(read.has_value());
  const auto of = [&](Version torch) -> const calibration::KernelCosts& {
    return read->KernelsOf(torch);
  };
  const auto bf16 = static_cast<std::size_t>(DataType::kBf16);
  EXPECT_EQ(&of({2, 7}), &*read->kernels);
  EXPECT_EQ(of({2, 7}).token_sum_time, Time());
  EXPECT_EQ(of({2, 8}).token_sum_time, Nanoseconds(5));
  EXPECT_EQ(of({2, 8}).gemm_unaligned, 0.25);
  const auto mixed = static_cast<std::size_t>(Access::kMixed);
  EXPECT_EQ(of({2, 7}).traffic[mixed], 0);
  EXPECT_EQ(of({2, 14}).traffic[mixed], 0.8);
  EXPECT_EQ(of({2, 14}).token_sum_time, Nanoseconds(5));
  EXPECT_EQ(of({2, 14}).gemm_unaligned, 0.5);
  EXPECT_EQ(of({2, 14}).gemm[bf16].max_efficiency, 0.9);
  EXPECT_EQ(of({2, 14}).launch, read->kernels->launch);
}

TEST(CalibrationFileTest, RefusesPowerAndTrafficThatCannotBe) {
  EXPECT_EQ(
      Mistakes(Changed("kernels:\n",
                       "kernels:\n"
                       "  power: {idle_watts: 100, products_watts: 1300, memory_watts: 90}\n")),
      (Lines{"4:64 calibration.implausible"}));
  EXPECT_EQ(Mistakes(Changed("kernels:\n",
                             "kernels:\n"
                             "  traffic: {mixed: 1.2, plain: 0.9}\n")),
            (Lines{"4:25 input.unknown-key", "4:20 calibration.implausible"}));
}

TEST(CalibrationFileTest, RefusesReleasesOutOfOrderAndWhatTheyCannotSay) {
  EXPECT_EQ(Mistakes(Changed("kernels:\n",
                             "kernels:\n"
                             "  releases: [{torch: \"2.8\"}, {torch: \"2.8\"}]\n")),
            (Lines{"4:30 calibration.implausible"}));
  EXPECT_EQ(Mistakes(Changed("kernels:\n",
                             "kernels:\n"
                             "  releases: [{torch: \"2.8\", gemm_unaligned: 2}]\n")),
            (Lines{"4:45 calibration.implausible"}));
  EXPECT_EQ(Mistakes(Changed("kernels:\n",
                             "kernels:\n"
                             "  releases: [{torch: \"2.8\", launch: 5 us}]\n")),
            (Lines{"4:29 input.unknown-key"}));
}

TEST(CalibrationFileTest, RefusesMeasurementsThatCannotBe) {
  EXPECT_EQ(Mistakes(Changed("[1 MiB, 4 us]]", "[1 MiB, 4 ns]]")),
            (Lines{"16:33 calibration.implausible"}));
  EXPECT_EQ(Mistakes(Changed("[[1 MiB, 50 us]]", "[]")), (Lines{"18:19 calibration.no-points"}));
  EXPECT_EQ(Mistakes(Changed("[[1 us, 3 us]]", "[[4 us, 3 us]]")),
            (Lines{"20:87 calibration.implausible"}));
  EXPECT_EQ(Mistakes(Changed("[[1 us, 3 us]]", "[[1 us, 3 us], [1 us, 3 us]]")),
            (Lines{"20:86 calibration.implausible"}));
  EXPECT_EQ(Mistakes(Changed("kernel_slowdown: 1.25", "kernel_slowdown: 0")),
            (Lines{"22:61 calibration.implausible"}));
}

}  // namespace
}  // namespace stepcast::scenario
