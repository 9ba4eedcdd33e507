#pragma once

#include <vector>

#include "src/model/layer_work.h"
#include "src/program/program.h"

namespace stepcast::lowering {

struct LowerOptions {
  // Whose program. All ranks' programs are alike but for the ranks in their process groups and the
  // offsets in their data flow.
  int rank = 0;
  // Describe what the operations do to values (src/program/data_flow.h), for the runtime.
  bool data_flow = false;
  // model::BuildWork of the scenario, where it is known already.
  const std::vector<model::LayerWork>* works = nullptr;
  // Leaves out what no time and no size depends on: names of buffers, events and labels, the uses
  // of buffers on the stream that they belong to, and waits of a host that costs nothing for what
  // it only allocates. Not with a data flow.
  bool bare = false;
  // Not null: a program that nobody needs any more. Its memory is used again.
  program::Program* spent = nullptr;
};

}  // namespace stepcast::lowering
