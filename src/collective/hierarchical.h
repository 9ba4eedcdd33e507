#pragma once

#include "src/collective/step_list.h"

namespace stepcast::collective {

// All-reduce in three stages (Cho et al. 2019, "BlueConnect: decomposing all-reduce for deep
// learning on heterogeneous network hierarchy"): reduce-scatter inside each node, all-reduce of a
// rank's share with the same ranks of the other nodes, all-gather inside each node; rings
// throughout. Between nodes a rank sends 2 (m - 1)/m S/g, a g-th of what it would in one ring.
//
// Rank m g + h has place h in node m.
class Hierarchical final : public StepList {
 public:
  struct Options {
    Bytes size;
    int nodes = 1;
    int ranks_per_node = 1;
    int channels = 1;
    int loops = 1;
  };
  explicit Hierarchical(const Options& options);

  std::int64_t StepsPerLoop(int) const override { return inside_ + across_ + inside_; }
  bool LoopsOverlap() const override { return false; }
  int StageOf(int from_worker, int to_worker) const override;
  Step At(int worker, std::int64_t i) const override;

 private:
  int nodes_;
  int group_;   // ranks of a node
  int inside_;  // steps of a stage; none where there is no other rank
  int across_;
};

}  // namespace stepcast::collective
