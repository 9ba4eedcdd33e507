#include <cstddef>

#include "src/nccl/terms.h"

namespace stepcast::nccl {
namespace {

struct Row {
  Algorithm algorithm;
  double ll, ll128, simple;
};

template <std::size_t n>
constexpr ByAlgorithm<double> FromRows(const Row (&rows)[n]) {
  ByAlgorithm<double> table;
  for (const Row& row : rows) {
    table.at(row.algorithm, Protocol::kLl) = row.ll;
    table.at(row.algorithm, Protocol::kLl128) = row.ll128;
    table.at(row.algorithm, Protocol::kSimple) = row.simple;
  }
  return table;
}

constexpr LatencyTable MakeV230() {
  return {.base = FromRows({{Algorithm::kTree, 6.8, 14, 8.4},
                            {Algorithm::kRing, 6.6, 14, 8.4},
                            {Algorithm::kPat, 8, 8, 8}}),
          .nvlink = FromRows({{Algorithm::kTree, 0.6, 1.25, 4},
                              {Algorithm::kRing, 0.6, 1.9, 3.4},
                              {Algorithm::kCollNetDirect, 0, 0, 3.7},
                              {Algorithm::kCollNetChain, 0, 0, 2.8},
                              {Algorithm::kNvls, 0, 0, 25},
                              {Algorithm::kNvlsTree, 0, 0, 25},
                              {Algorithm::kPat, 0, 0, 4}}),
          .pcie = FromRows({{Algorithm::kTree, 1, 1.9, 4},
                            {Algorithm::kRing, 1, 2.5, 5.7},
                            {Algorithm::kCollNetDirect, 0, 0, 3.7},
                            {Algorithm::kCollNetChain, 0, 0, 2.8},
                            {Algorithm::kPat, 0, 0, 4}}),
          .network = FromRows({{Algorithm::kTree, 5, 8.5, 14},
                               {Algorithm::kRing, 2.7, 4, 14},
                               {Algorithm::kCollNetDirect, 0, 0, 31},
                               {Algorithm::kCollNetChain, 0, 0, 30},
                               {Algorithm::kNvls, 0, 0, 18},
                               {Algorithm::kNvlsTree, 0, 0, 20.9},
                               {Algorithm::kPat, 0, 0, 14}})};
}

// Up to 2.27, NVLSTree over the network was assumed to be faster.
constexpr LatencyTable MakeV227() {
  LatencyTable table = MakeV230();
  table.network.at(Algorithm::kNvlsTree, Protocol::kSimple) = 14;
  return table;
}

// 2.21 charged Simple trees the time of a whole chunk per hop.
constexpr LatencyTable MakeV221() {
  LatencyTable table = MakeV227();
  for (ByAlgorithm<double>* hop : {&table.nvlink, &table.pcie, &table.network}) {
    hop->at(Algorithm::kTree, Protocol::kSimple) = 28;
  }
  return table;
}

constexpr LatencyTable kV221 = MakeV221();
constexpr LatencyTable kV227 = MakeV227();
constexpr LatencyTable kV230 = MakeV230();

}  // namespace

const LatencyTable& LatenciesOf(Version version) {
  switch (version) {
    case Version::kV221:
      return kV221;
    case Version::kV223:
    case Version::kV227:
      return kV227;
    case Version::kV228:
    case Version::kV230:
      return kV230;
  }
  return kV230;
}

}  // namespace stepcast::nccl
