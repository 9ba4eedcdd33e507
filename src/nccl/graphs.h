#pragma once

#include "src/nccl/graph.h"
#include "src/nccl/node.h"
#include "src/nccl/terms.h"
#include "src/nccl/version.h"

namespace stepcast::nccl {

// The graphs that the algorithms run on; those of a communicator's nodes are alike.
struct Graphs {
  Graph ring;
  Graph tree;  // PAT uses it too
  Graph collnet_chain;
  Graph collnet_direct;
  Graph nvls;  // NVLSTree uses it too

  const Graph& Of(Algorithm algorithm) const;
};

// Of `nodes` such machines. Rings and trees get the same number of channels. CollNet is looked for
// only when asked for.
Graphs FindGraphs(const Node& node, int nodes, Version version, bool collnet = false);

}  // namespace stepcast::nccl
