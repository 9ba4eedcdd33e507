#include "src/formats/nccl_tests_collective.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "src/base/nccl_tests_convention.h"

namespace stepcast::formats {
namespace {

struct Form {
  CollectiveKind kind;
  bool reduces;
  bool rooted;
};
// As the programs of nccl-tests fill the columns redop and root (src/*.cu).
constexpr Form kForms[] = {
    {CollectiveKind::kAllReduce, true, false}, {CollectiveKind::kReduceScatter, true, false},
    {CollectiveKind::kReduce, true, true},     {CollectiveKind::kAllGather, false, false},
    {CollectiveKind::kAllToAll, false, false}, {CollectiveKind::kSendRecv, false, false},
    {CollectiveKind::kBroadcast, false, true}, {CollectiveKind::kScatter, false, true},
    {CollectiveKind::kGather, false, true},
};

constexpr int kMostRanks = 1 << 20;

// busbw over algbw, each printed with two digits after the point.
struct Ratio {
  double low = 0;
  double high = 0;
  bool Holds(double factor) const { return factor >= low && factor <= high; }
};
Ratio RatioOf(double algbw, double busbw) {
  constexpr double kRounding = 0.0051;
  return {.low = (busbw - kRounding) / (algbw + kRounding),
          .high = algbw > kRounding ? (busbw + kRounding) / (algbw - kRounding) : HUGE_VAL};
}

// The numbers of ranks, first and last, with which a collective has that ratio; {2, 1}: none. The
// factor does not fall with the ranks.
struct Ranks {
  int first = 2;
  int last = 1;
};
Ranks RanksOf(CollectiveKind kind, const Ratio& ratio) {
  const auto first_with = [&](auto enough) {
    int low = 2;
    int high = kMostRanks;
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (enough(BusFactor(kind, middle))) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  };
  const int first = first_with([&](double factor) { return factor >= ratio.low; });
  const int beyond = first_with([&](double factor) { return factor > ratio.high; });
  if (!ratio.Holds(BusFactor(kind, first))) return {};
  return {first, beyond == kMostRanks ? beyond : beyond - 1};
}

}  // namespace

DeducedCollective DeduceCollective(const NcclTestsTraits& traits, int ranks) {
  DeducedCollective deduced;
  if (!traits.reduces && !traits.rooted) return deduced;
  const bool known = traits.algbw > 0;
  const Ratio ratio = RatioOf(traits.algbw, traits.busbw);
  for (const Form& form : kForms) {
    if (traits.reduces.value_or(form.reduces) != form.reduces) continue;
    if (traits.rooted.value_or(form.rooted) != form.rooted) continue;
    if (!known) {
      deduced.kinds.push_back(form.kind);
      continue;
    }
    if (ranks > 1) {
      if (ratio.Holds(BusFactor(form.kind, ranks))) deduced.kinds.push_back(form.kind);
      continue;
    }
    const Ranks possible = RanksOf(form.kind, ratio);
    if (possible.first > possible.last) continue;
    deduced.kinds.push_back(form.kind);
    deduced.ranks = possible.first == possible.last ? possible.first : 0;
  }
  if (deduced.kinds.size() != 1) deduced.ranks = 0;
  return deduced;
}

}  // namespace stepcast::formats
