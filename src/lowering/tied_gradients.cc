#include "src/lowering/tied_gradients.h"

#include <algorithm>

#include "src/lowering/effects.h"
#include "src/lowering/memory_kernel.h"
#include "src/model/layer.h"
#include "src/parallel/axis.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {

bool TiedGradients::Has(int tensor) const {
  const std::vector<int>& tied = step_.stage().tied_across();
  return std::find(tied.begin(), tied.end(), tensor) != tied.end();
}

bool TiedGradients::Counts(int tensor) const {
  // Of ranks along the axis that have all of it, the first one.
  const model::Tensor& own = step_.model().tensors[static_cast<std::size_t>(tensor)];
  const parallel::Axis axis = own.group == model::ParameterGroup::kExperts
                                  ? parallel::Axis::kExpertTensor
                                  : parallel::Axis::kTensor;
  const bool first_of_group =
      own.IsSplitAlong(axis) ||
      plan::GridsOf(step_.plan()).At(step_.rank())[static_cast<std::size_t>(axis)] == 0;
  return first_of_group &&
         (!Has(tensor) || step_.stage().stage() == step_.stage().tied_stages().front());
}

void TiedGradients::WritePrologue() {
  if (plan::AddsUpPartsOfTokens(step_.plan())) {
    std::int64_t elements = 0;
    for (std::size_t t = 0; t < step_.model().tensors.size(); ++t) {
      if (!step_.model().tensors[t].sequence_parallel) continue;
      of_part_of_tokens_.push_back(static_cast<int>(t));
      elements += step_.model().tensors[t].elements;
    }
    if (elements > 0) {
      flat_ = builder_.AddBuffer("gradients of parts of the tokens",
                                 BytesOf(elements, step_.plan().training.gradient_dtype),
                                 program::Category::kCommunication);
      tensor_communicator_ = builder_.AddCommunicator(
          "tensor", plan::GridsOf(step_.plan()).Layout(parallel::Axis::kTensor));
    }
  }
  if (step_.stage().tied_across().empty()) return;
  communicator_ = builder_.AddCommunicator("embedding", plan::GridsOf(step_.plan())
                                                            .Layout(parallel::Axis::kPipeline)
                                                            .Only(step_.stage().tied_stages()));
  ready_ = builder_.AddEvent("tied gradients ready");
}

void TiedGradients::AddUpParts(const std::vector<Part>& parts) {
  const StreamId compute = step_.compute();
  const DataType type = parts.front().place.type;
  std::vector<program::BufferUse> reads{builder_.WritesAll(flat_)};
  std::vector<program::BufferUse> writes{builder_.ReadsAll(flat_)};
  std::vector<program::Effect> into, back;
  std::int64_t elements = 0;
  for (const Part& part : parts) {
    const std::int64_t own = step_.model().tensors[static_cast<std::size_t>(part.tensor)].elements;
    reads.push_back(Reads(part.place.buffer, part.place.offset, BytesOf(own, type)));
    writes.push_back(Writes(part.place.buffer, part.place.offset, BytesOf(own, type)));
    into.push_back(Move(At(flat_, elements, type), part.place, own));
    back.push_back(Move(part.place, At(flat_, elements, type), own));
    elements += own;
  }
  const Bytes bytes = BytesOf(elements, type);
  builder_.Allocate(compute, flat_);
  builder_.With(into);
  builder_.Run(compute, builder_.AddKernel(MemoryKernel("flatten", type, bytes, bytes)), reads);
  const program::Elements whole = At(flat_, 0, type);
  builder_.With(Collected(whole, whole, elements));
  builder_.Communicate(compute,
                       builder_.AddCollective({.kind = CollectiveKind::kAllReduce,
                                               .communicator = tensor_communicator_,
                                               .bytes = bytes,
                                               .data_type = type}),
                       {builder_.WritesAll(flat_)});
  builder_.With(back);
  builder_.Run(compute, builder_.AddKernel(MemoryKernel("unflatten", type, bytes, bytes)), writes);
  builder_.Release(flat_);
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
