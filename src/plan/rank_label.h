#pragma once

namespace stepcast::plan {

// The facts of a plan that tell the program of a rank from the programs of others, beside the ranks
// in its process groups and the offsets in its data flow. A further such fact is a field here.
struct RankLabel {
  int stage = 0;  // of the pipeline
  friend bool operator==(const RankLabel&, const RankLabel&) = default;
};

}  // namespace stepcast::plan
