#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/cost/prices.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "tl/expected.hpp"

// Runs step programs on a modelled cluster in virtual time.
namespace stepcast::simulate {

// Ranks that run the same program under equivalent surroundings: simulated once.
struct RankClass {
  const program::Program* program = nullptr;
  const cost::Prices* prices = nullptr;
  int representative = 0;  // the lowest of its global ranks
};

struct Options {
  int steps = 1;         // how often Program::step is issued after the prologue
  bool barrier = false;  // every rank waits for all work of a step before the next is issued
};

// Work was left and nothing could happen any more: one sentence for each blocked stream or host,
// naming the rank, the operation and what it waits for.
struct Deadlock {
  std::vector<std::string> blocked;
};

// Classes meet in the communicators whose name and rank list they have in common: the k-th
// collective of each member is the same one and starts when all have reached it. Members that
// disagree about it (kind, bytes, type) are a deadlock that names both. Times are exact and
// deterministic: same input, same records.
tl::expected<std::vector<program::Timeline>, Deadlock> Simulate(std::span<const RankClass> classes,
                                                                const Options& options);

}  // namespace stepcast::simulate
