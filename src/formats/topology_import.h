#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/printable.h"
#include "src/formats/imported_topology.h"
#include "src/topology/faults.h"
#include "src/topology/link_rules.h"

namespace stepcast::formats {

// Disjoint sets of numbers from 0, which can be merged. The smallest number identifies a set.
class DisjointSets {
 public:
  explicit DisjointSets(std::size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }
  std::size_t Find(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void Join(std::size_t a, std::size_t b) {
    a = Find(a);
    b = Find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> parent_;
};

// A machine while it is read, and the mistakes in its description.
class TopologyImport {
 protected:
  explicit TopologyImport(const ImportOptions& options) : options_(options) {}

  tl::unexpected<Diagnostics> Mistakes() { return tl::unexpected(std::move(mistakes_)); }
  void Report(std::string code, Location location, std::string message, std::string hint) {
    mistakes_.push_back(
        {std::move(code), std::move(location), std::move(message), std::move(hint)});
  }
  // Adds a note, unless the notes already contain it.
  void Note(std::string note) {
    if (std::find(notes_.begin(), notes_.end(), note) != notes_.end()) return;
    if (notes_.size() < kMostShownFaults) {
      notes_.push_back(std::move(note));
    } else {
      ++notes_left_out_;
    }
  }
  void Add(topology::LinkKind kind, topology::DeviceKind from_kind, std::size_t from,
           topology::DeviceKind to_kind, std::size_t to, int count, Time latency,
           Bandwidth bandwidth) {
    links_.push_back({kind,
                      from_kind,
                      static_cast<int>(from),
                      to_kind,
                      static_cast<int>(to),
                      count,
                      {latency, bandwidth}});
  }
  void SetCount(topology::DeviceKind kind, std::size_t count) {
    node_type_.devices[static_cast<std::size_t>(kind)] = static_cast<int>(count);
  }

  // Returns the machine, or the mistakes. If the machine is impossible, the mistakes have the
  // position `location`.
  Result<ImportedTopology> Finish(const Location& location) {
    constexpr std::size_t kMostRules = 1000;  // the most entries of `links` in a topology file
    node_type_.links = RulesOf(links_);
    for (const topology::Fault& fault : FaultsOf(node_type_, fabric_, fabric_ ? 2 : 1)) {
      Report("topology.impossible", location, fault.message, fault.hint);
    }
    if (node_type_.links.size() > kMostRules) {
      Report("topology.impossible", location,
             fmt::format("a topology file can have at most {} entries for links, but the machine "
                         "needs {}",
                         kMostRules, node_type_.links.size()),
             "write the topology file by hand (docs/formats/topology.md)");
    }
    if (!mistakes_.empty()) return Mistakes();
    Note(kLatencyNote);
    if (notes_left_out_ > 0) {
      notes_.push_back(fmt::format("{} more notes are not shown", notes_left_out_));
    }
    return ImportedTopology{std::move(node_type_), fabric_, std::move(notes_)};
  }

  const ImportOptions& options_;
  topology::NodeType node_type_;
  std::optional<topology::Fabric> fabric_;
  std::vector<topology::LinkedPair> links_;
  Diagnostics mistakes_;

 private:
  std::vector<std::string> notes_;
  std::size_t notes_left_out_ = 0;
};

}  // namespace stepcast::formats
