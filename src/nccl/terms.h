#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/nccl/version.h"

namespace stepcast::nccl {

// NCCL's functions (NVIDIA/nccl, src/include/nccl_common.h). All enumerators are in NCCL's order,
// because NCCL chooses the first of several enumerators with equal predicted times.
//
// All of src/nccl uses NCCL's units, as floating-point numbers: latencies in microseconds,
// bandwidths in GB/s (10^9 bytes per second, one direction).

enum class Function : std::uint8_t { kBroadcast, kReduce, kAllGather, kReduceScatter, kAllReduce };
enum class Algorithm : std::uint8_t {
  kTree,
  kRing,
  kCollNetDirect,
  kCollNetChain,
  kNvls,
  kNvlsTree,
  kPat
};
enum class Protocol : std::uint8_t { kLl, kLl128, kSimple };

inline constexpr std::array kFunctions = {Function::kBroadcast, Function::kReduce,
                                          Function::kAllGather, Function::kReduceScatter,
                                          Function::kAllReduce};
inline constexpr std::array kAlgorithms = {
    Algorithm::kTree,         Algorithm::kRing, Algorithm::kCollNetDirect,
    Algorithm::kCollNetChain, Algorithm::kNvls, Algorithm::kNvlsTree,
    Algorithm::kPat};
inline constexpr std::array kProtocols = {Protocol::kLl, Protocol::kLl128, Protocol::kSimple};

// Returns the name in NCCL's environment variables and logs.
constexpr std::string_view Name(Function function) {
  constexpr std::string_view kNames[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                         "AllReduce"};
  return kNames[static_cast<std::size_t>(function)];
}
constexpr std::string_view Name(Algorithm algorithm) {
  constexpr std::string_view kNames[] = {
      "Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"};
  return kNames[static_cast<std::size_t>(algorithm)];
}
constexpr std::string_view Name(Protocol protocol) {
  constexpr std::string_view kNames[] = {"LL", "LL128", "Simple"};
  return kNames[static_cast<std::size_t>(protocol)];
}

// Returns whether the function is all-gather or reduce-scatter, for which NCCL has the same rules.
constexpr bool Gathers(Function function) {
  return function == Function::kAllGather || function == Function::kReduceScatter;
}

// Returns whether NVSwitch reduces data for the algorithm (NVLink SHARP), within one node or in
// each node of a tree.
constexpr bool IsNvls(Algorithm algorithm) {
  return algorithm == Algorithm::kNvls || algorithm == Algorithm::kNvlsTree;
}

// A table of values by algorithm and protocol.
template <typename T>
class ByAlgorithm {
 public:
  constexpr T& at(Algorithm algorithm, Protocol protocol) {
    return values_[static_cast<std::size_t>(algorithm)][static_cast<std::size_t>(protocol)];
  }
  constexpr const T& at(Algorithm algorithm, Protocol protocol) const {
    return values_[static_cast<std::size_t>(algorithm)][static_cast<std::size_t>(protocol)];
  }

  friend constexpr bool operator==(const ByAlgorithm&, const ByAlgorithm&) = default;

 private:
  std::array<std::array<T, kProtocols.size()>, kAlgorithms.size()> values_{};
};

// The latencies in NCCL's tuner, in microseconds (NVIDIA/nccl, src/graph/tuning.cc). 0 if the
// algorithm does not use the protocol.
struct LatencyTable {
  ByAlgorithm<double> base;
  // The latency of one step, by kind of connection.
  ByAlgorithm<double> nvlink;
  ByAlgorithm<double> pcie;
  ByAlgorithm<double> network;
};

const LatencyTable& LatenciesOf(Version version);

}  // namespace stepcast::nccl
