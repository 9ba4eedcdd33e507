#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/lowering/deepspeed_buckets.h"
#include "src/lowering/operations.h"
#include "src/lowering/process_groups.h"
#include "src/lowering/training_step.h"

// The flat tensors of DeepSpeed's stages 0 to 2 on one rank: where parameters lie, and which of
// their elements the rank owns. At stage 0 it owns all.
namespace stepcast::lowering {

class DeepSpeedPartitions {
 public:
  DeepSpeedPartitions(TrainingStep& step, Operations& operations);

  // Prologue. Communicators first.
  void AddCommunicators();
  void AddParameters();

  std::size_t size() const { return states_.size(); }  // groups, dense parameters first
  const FlatGroups& groups() const { return flats_; }
  const FlatOrder& flat(std::size_t g) const { return flats_.all()[g].flat; }
  // "", "expert ", "expert group 2 ": what names of the group's buffers begin with.
  static std::string PrefixOf(std::size_t g);
  // What one rank has to do with of a group, and of all of them.
  const Holding& held(std::size_t g) const { return states_[g].held; }
  const Holding& held() const { return held_; }
  // By the ranks that share elements out: those ranks, all such elements, and what of them tensors
  // have that reach into a rank's parts.
  std::int64_t ranks(model::ParameterGroup of) const {
    return static_cast<std::int64_t>(ranks_[IndexOf(of)].data.size());
  }
  std::int64_t ElementsOf(model::ParameterGroup ranks_of) const;
  std::int64_t HeldOf(model::ParameterGroup ranks_of) const;
  Index communicator(model::ParameterGroup of) const { return communicators_[IndexOf(of)]; }

  Range Parameter(int tensor) const;
  program::BufferUse OwnParameters(std::size_t g) const;
  // Where an element of the rank's part of a tensor lies in the rank's part of the group, and in
  // the rank's parts of all groups, each with room for what it holds.
  std::int64_t OwnOffset(int tensor, std::int64_t first) const;
  std::int64_t KeptOffset(int tensor, std::int64_t first) const {
    return states_[flats_.group_of(tensor)].kept_first + OwnOffset(tensor, first);
  }
  // Calls visit(tensor, first element in it, elements) for what the rank owns.
  template <typename Visit>
  void ForEachOwn(std::size_t g, Visit visit) const {
    if (!step_.builder().describes_data_flow()) return;
    for (const int tensor : flat(g).tensors) VisitOwn(tensor, visit);
  }
  template <typename Visit>
  void VisitOwn(int tensor, Visit visit) const {
    const std::size_t g = flats_.group_of(tensor);
    const std::int64_t begin = states_[g].own_first - flat(g).offsets[tensor];
    const std::int64_t first = std::max<std::int64_t>(0, begin);
    const std::int64_t last = std::min(flat(g).sizes[tensor], begin + flat(g).part());
    if (first < last) visit(tensor, first, last - first);
  }

  // Behind the update, on the compute stream: all ranks' parts, group by group.
  void Gather();

 private:
  // What the rank has of a group.
  struct State {
    Range parameters;
    std::int64_t own_first = 0;   // where its part of the flat tensor begins
    std::int64_t kept_first = 0;  // see KeptOffset
    Holding held;
  };

  static std::size_t IndexOf(model::ParameterGroup group) {
    return static_cast<std::size_t>(group);
  }
  OfParameterGroups<std::int64_t> Shards() const;

  TrainingStep& step_;
  Operations& operations_;
  const bool shards_;
  const OfParameterGroups<ProcessGroups> ranks_;
  const FlatGroups flats_;
  std::vector<State> states_;
  Holding held_;
  OfParameterGroups<Index> communicators_{program::kNone, program::kNone};
};

}  // namespace stepcast::lowering
