#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/program/program.h"
#include "src/validate/training_check.h"

// Interprets the data flow of all ranks' programs on host memory, one instruction at a time, all
// ranks in lockstep. Slow, but simple enough to be trusted. Unwritten memory holds NaNs.
namespace stepcast::training {

using validate::Gradients;

class Interpreter {
 public:
  // One program per rank. Runs the prologue.
  Interpreter(std::vector<program::Program> programs, Gradients gradients, std::uint64_t seed);

  void Step();

  // The values of a part of a rank's state, widened to FP32.
  std::vector<float> Read(int rank, const program::StatePart& part) const;
  const program::Program& program(int rank) const { return programs_[rank]; }
  int ranks() const { return static_cast<int>(programs_.size()); }

 private:
  using Memory = std::vector<std::vector<std::byte>>;  // by buffer; empty: not allocated

  // The buffers in the data flow; activations and workspaces get no memory.
  static std::vector<bool> NamedBuffers(const program::Program& program);

  void Allocate(int rank, program::Index buffer);
  std::byte* Place(int rank, const program::Elements& elements, std::int64_t count);
  void Run(int rank, const program::Effect& effect, const program::Instruction& instruction);
  void Gradient(int rank, const program::Effect& effect, int micro_batch);
  void Move(int rank, const program::Effect& effect);
  void Squares(int rank, const program::Effect& effect);
  void Clip(int rank, const program::Effect& effect);
  void Update(int rank, const program::Effect& effect);
  // `effects`: each rank's effect of the collective.
  void Communicate(std::size_t instruction, const std::vector<program::Effect>& effects);

  const std::vector<program::Program> programs_;
  const Gradients gradients_;
  const std::uint64_t seed_;
  std::vector<std::vector<bool>> named_;  // by rank and buffer
  std::vector<Memory> memory_;            // by rank
  int step_ = 0;
};

}  // namespace stepcast::training
