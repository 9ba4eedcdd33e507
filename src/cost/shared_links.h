#pragma once

#include <array>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "src/base/collective_kind.h"
#include "src/cost/demand.h"
#include "src/cost/sibling_links.h"
#include "src/network/network.h"
#include "tl/expected.hpp"

namespace stepcast::cost {

inline constexpr int kSharedLinks = kResources - static_cast<int>(Resource::kNodeLinks);

// The links that decide how the collectives of a program hinder each other.
//
// In every node the same happens at the same time, so one rank's collectives stand for all: each
// uses a link for as long as it and its siblings do together. Of two links of which one is never
// busier than the other, whatever runs, only the other can decide. Those that are left are a few:
// where shards meet behind PCIe switches and replicas over cards, a GPU's own link and the card.
class SharedLinks {
 public:
  // A group with its siblings, the algorithm and the kind of a collective.
  using Use = std::tuple<const SiblingLinks*, std::string, CollectiveKind>;
  // Seconds for each byte of the size that a use keeps each of the links busy: in the order of
  // resources from kNodeLinks on.
  using Busy = std::array<double, kSharedLinks>;

  // For each of the uses that a program has. Fails as SiblingLinks::Of.
  tl::expected<std::vector<Busy>, network::Fault> Of(const std::vector<Use>& uses);

 private:
  std::map<std::vector<Use>, std::vector<Busy>> known_;
};

}  // namespace stepcast::cost
