#include "src/nccl/bandwidth_ceilings.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "src/base/check.h"

namespace stepcast::nccl {
namespace {

// For 1, 2 and more nodes.
using ByNodes = std::array<double, 3>;
// For Volta, Ampere, Hopper and Blackwell.
using ByGeneration = std::array<ByNodes, 4>;

constexpr ByGeneration kLl = {{{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}}};
constexpr std::size_t kIntelRow = 0;
constexpr std::size_t kAmdRow = 1;

struct PerChannel {
  ByGeneration ring_ll128;
  ByGeneration tree_ll128;
  ByGeneration tree;
  ByGeneration nvls_tree;
};

constexpr PerChannel kV230 = {
    .ring_ll128 = {{{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {40, 40, 40}}},
    .tree_ll128 = {{{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}}},
    .tree = {{{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}}},
    .nvls_tree = {{{26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96, 80}}}};

constexpr PerChannel MakeV228() {
  PerChannel table = kV230;
  table.ring_ll128[3] = {73.4, 34.6, 73.4};
  table.nvls_tree[3] = {0, 96, 43.8};
  return table;
}

constexpr PerChannel MakeV227() {
  PerChannel table = kV230;
  table.ring_ll128[3] = {73.4, 73.4, 73.4};
  table.tree_ll128[3] = {73.4, 73.4, 58};
  table.tree[3] = {77.4, 82.8, 72};
  return table;
}

constexpr PerChannel kV228 = MakeV228();
constexpr PerChannel kV227 = MakeV227();

constexpr std::array<double, 4> kNvlsEfficiency = {0, 0, 0.85, 0.74};

const PerChannel& TableOf(Version version) {
  if (version >= Version::kV230) return kV230;
  return version >= Version::kV228 ? kV228 : kV227;
}

}  // namespace

BandwidthCeilings CeilingsOf(Version version, Generation oldest, Cpu cpu, int nodes) {
  STEPCAST_CHECK(nodes >= 1, "a communicator has nodes");
  // Releases before Blackwell take it for Hopper.
  if (version < Version::kV227) oldest = std::min(oldest, Generation::kHopper);
  const auto row = static_cast<std::size_t>(oldest);
  const auto column = static_cast<std::size_t>(std::min(nodes, 3) - 1);
  const bool amd = cpu == Cpu::kAmd || cpu == Cpu::kMixed;
  const std::size_t ll_row = nodes == 1 ? row : amd ? kAmdRow : kIntelRow;
  const PerChannel& table = TableOf(version);
  return {.ll = kLl[ll_row][column],
          .ring_ll128 = table.ring_ll128[row][column],
          .tree_ll128 = table.tree_ll128[row][column],
          .tree = table.tree[row][column],
          .nvls_tree = table.nvls_tree[row][column],
          .nvls_efficiency = kNvlsEfficiency[row]};
}

}  // namespace stepcast::nccl
