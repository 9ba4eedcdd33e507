#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/lowering/training_step.h"

// The end of a step as all of DeepSpeed's ZeRO optimizers have it (deepspeed/runtime/zero/
// stage_1_and_2.py @ 02aa38c3 and stage3.py @ 007cca6a, step()): overflow check in fp16, gradient
// norm, and then group by group: gradients put behind one another and cast to FP32, unscaled, the
// optimizer on FP32 values, the result copied to the parameters.
namespace stepcast::lowering {

// Elements that one call of the optimizer updates.
struct UpdateGroup {
  std::int64_t elements = 0;         // with padding
  Index states = program::kNone;     // FP32: a copy of the parameters, then the moments
  Index flat = program::kNone;       // the gradients, behind one another
  Index gradients = program::kNone;  // in FP32; `flat` itself where that is FP32
  Index flatten = program::kNone, cast = program::kNone, unscale = program::kNone;  // kernels
  Index copy = program::kNone;                                                      // kernel
};

class DeepSpeedUpdate {
 public:
  // `experts`: over which the norm of experts' gradients is averaged; kNone: there is no such norm,
  // or one rank has them.
  DeepSpeedUpdate(TrainingStep& step, Index communicator, Index experts = program::kNone);

  // Prologue: describes a group and allocates its states. `padding`: of `elements`.
  UpdateGroup AddGroup(const std::string& name, std::int64_t elements, std::int64_t padding);
  // The model elements [first, first + count) are the group's from `offset` on.
  void AddState(const UpdateGroup& group, std::int64_t offset, std::int64_t first,
                std::int64_t count);

  // fp16 only: looks for overflow in `tensors` tensors of together `elements` that `uses` names, on
  // `stream`; all ranks agree, and the host waits for the answer.
  void CheckOverflow(StreamId stream, std::int64_t tensors, std::int64_t elements,
                     const std::vector<program::BufferUse>& uses);
  // All ranks agree on one number, on the compute stream; `then` is done with it.
  void AgreeOnScalar(std::span<const program::Effect> then = {}, bool of_experts = false);
  // The norm of all gradients: of these tensors, then over all ranks. `squares`, of the model's
  // elements among them, are made with SquaresOf; they count with what calls before in this step
  // brought, if this is not the `first`. `of_experts`: the ranks that have the same experts average
  // what all have added up, which is the same on each (_average_expert_grad_norms).
  void TakeNorm(std::int64_t tensors, std::int64_t elements,
                const std::vector<program::BufferUse>& uses,
                std::span<const program::Effect> squares, bool first, bool of_experts = false);
  // The squares of elements that `copies` ranks have.
  program::Effect SquaresOf(const program::Elements& source, std::int64_t elements,
                            std::int64_t copies) const;

  // Puts the group's gradients behind one another; `moves` fill group.flat from what `uses` names.
  // What held them may then be released.
  void Flatten(const UpdateGroup& group, std::vector<program::BufferUse> uses,
               std::span<const program::Effect> moves);
  // Updates the parameters that `parameters` names. `updates`: see UpdateOf.
  void Apply(const UpdateGroup& group, const std::vector<program::BufferUse>& parameters,
             std::span<const program::Effect> updates);
  // The update of `count` parameters at `place`, which are the group's from `offset` on.
  program::Effect UpdateOf(const UpdateGroup& group, const program::Elements& place,
                           std::int64_t offset, std::int64_t count) const;

 private:
  Index MemoryKernel(const char* name, std::int64_t elements, std::int64_t read_bytes,
                     std::int64_t written_bytes);
  // The optimizer's own arrays: behind the copy of the parameters where those are FP32 themselves.
  program::Elements StatesOf(const UpdateGroup& group, std::int64_t offset) const;

  TrainingStep& step_;
  ProgramBuilder& builder_;
  const plan::Training& training_;
  // The optimizer sees FP32 alone.
  plan::Training fp32_;
  Index communicator_;
  Index scalar_ = program::kNone;   // buffer: two FP32 numbers, the latest and the sum
  Index reduced_ = program::kNone;  // event
  std::vector<Index> all_reduces_;  // collectives: over data, over the parts of the model
  Index average_ = program::kNone;  // collective, over the ranks that have the same experts
};

}  // namespace stepcast::lowering
