#pragma once

#include <cstddef>
#include <cstdint>

#include "src/lowering/program_builder.h"
#include "src/model/model.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/plan/plan.h"

namespace stepcast::lowering {

// The scales of FP8 that come of the steps before (model::Fp8Scaling::kDelayed), as Transformer
// Engine keeps them up (transformer_engine/pytorch/fp8.py, reduce_and_update_fp8_tensors): where
// autocast ends, which Megatron-LM has behind a micro-batch's forward through a chunk of blocks,
// and at the end of the backward of that chunk's first module, the largest numbers of all FP8
// tensors of the rank come into one tensor, the ranks agree on the largest of them, and one kernel
// makes scales of their history. The ranks are those of all axes but the pipeline (fp8_group:
// Megatron-LM's get_amax_reduction_group, which tp_only_amax_red confines to the ranks that divide
// layers; without a group all ranks). What is issued behind it waits for it, a message to the next
// stage, too.
class ScaleUpdates {
 public:
  // `model`: this rank's.
  ScaleUpdates(const plan::Plan& plan, const model::Model& model, ProgramBuilder& builder);

  void WritePrologue(StreamId compute);

  // Behind a layer's forward or backward, in a pass over layers [first, end) of the model: does
  // something behind the last block.
  void AfterLayer(StreamId compute, parallel::Task task, int layer, int first, int end);

 private:
  // Of a direction.
  struct Update {
    Index gather = program::kNone, reduce = program::kNone, renew = program::kNone;
    std::int64_t tensors = 0;
  };
  bool IsBlock(int layer) const {
    return model_.layers[static_cast<std::size_t>(layer)].kind == model::LayerKind::kBlock;
  }
  void Write(StreamId compute, const Update& update);

  const plan::Plan& plan_;
  const model::Model& model_;
  ProgramBuilder& builder_;
  std::int64_t weights_ = 0;  // of linear layers in FP8; 0: nothing is done
  Index largest_ = program::kNone;
  Update forward_, backward_;
};

}  // namespace stepcast::lowering
