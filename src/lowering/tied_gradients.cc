#include "src/lowering/tied_gradients.h"

#include <algorithm>

#include "src/lowering/effects.h"
#include "src/parallel/axis.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {

bool TiedGradients::Has(int tensor) const {
  const std::vector<int>& tied = step_.stage().tied_across();
  return std::find(tied.begin(), tied.end(), tensor) != tied.end();
}

void TiedGradients::WritePrologue() {
  if (step_.stage().tied_across().empty()) return;
  const int stages = step_.stage().stages();
  communicator_ = builder_.AddCommunicator(
      "embedding",
      plan::GridOf(step_.plan()).Layout(parallel::Axis::kPipeline).Only({0, stages - 1}));
  ready_ = builder_.AddEvent("tied gradients ready");
}

void TiedGradients::AddUpOne(StreamId stream, int tensor, const program::Elements& place) {
  const std::int64_t elements = step_.model().tensors[static_cast<std::size_t>(tensor)].elements;
  const Bytes bytes = BytesOf(elements, place.type);
  const Index all_reduce = builder_.AddCollective({.kind = CollectiveKind::kAllReduce,
                                                   .communicator = communicator_,
                                                   .bytes = bytes,
                                                   .data_type = place.type});
  if (stream != step_.compute()) builder_.WaitForStream(stream, step_.compute(), ready_);
  builder_.With(Collected(place, place, elements));
  builder_.Communicate(stream, all_reduce, {Writes(place.buffer, place.offset, bytes)});
}

}  // namespace stepcast::lowering
