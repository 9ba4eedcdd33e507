#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/lowering/training_step.h"
#include "src/scenario/scenario.h"

// ZeRO-Offload, ZeRO-Infinity and FSDP's CPU offload: states that live in the node's memory or on
// its NVMe drives, the optimizer that runs on its CPUs, and the way between them and the device.
// What the host does for a rank appears as operations of a given time: the update on the compute
// stream, because nothing is computed meanwhile; reads and writes of NVMe on a stream of their own.
// All ranks of a node do the same at the same time and share its memory bandwidth and its drives.
namespace stepcast::lowering {

// Where a plan has its optimizer's states and its parameters.
struct StatePlaces {
  plan::OffloadDevice optimizer = plan::OffloadDevice::kNone;
  plan::OffloadDevice parameters = plan::OffloadDevice::kNone;
  bool any() const {
    return optimizer != plan::OffloadDevice::kNone || parameters != plan::OffloadDevice::kNone;
  }
};
StatePlaces StatePlacesOf(const plan::DataParallel& data_parallel);

class HostOffload {
 public:
  explicit HostOffload(TrainingStep& step);

  bool optimizer() const;
  bool parameters() const;

  // Adds what the class needs to the program; before the first step.
  void WritePrologue();

  // Copies `bytes`, which `uses` names on the device, over the host link.
  void ToHost(StreamId stream, Bytes bytes, const std::vector<program::BufferUse>& uses);
  void ToDevice(StreamId stream, Bytes bytes, const std::vector<program::BufferUse>& uses);

  // The CPUs update `elements` parameters, from and to NVMe if the states are there; the host is
  // busy until they have.
  void Update(std::int64_t elements);

  // The CPUs' update of `elements` parameters as a task of the host, which has waited for their
  // gradients.
  void UpdateOnHost(std::int64_t elements);

  // The CPUs add gradients of `elements` parameters that have come on `stream` to what the host
  // has; the host is busy until they have.
  void AccumulateOnHost(StreamId stream, std::int64_t elements);

  // Gradients of `elements` parameters go on to NVMe after they have reached the host on `stream`.
  void GradientsOnward(StreamId stream, std::int64_t elements);
  // Parameters of so many bytes are read from NVMe before `stream` goes on; nothing if they are in
  // the host's memory. Updated ones are written back.
  void ParametersInto(StreamId stream, Bytes bytes);
  void ParametersOnward(Bytes bytes);

 private:
  Index GivenKernel(const char* name, Time time);
  Time AtRate(Bytes bytes, Bandwidth of_node) const;
  // What CPU kernels reach of the host's memory bandwidth.
  Bandwidth Achieved() const;
  Time UpdateTime(std::int64_t elements) const;
  void RunOnDrive(StreamId before, const char* name, Time time);

  TrainingStep& step_;
  ProgramBuilder& builder_;
  const StatePlaces places_;
  std::int64_t ranks_of_node_ = 1;
  topology::Host host_{};
  StreamId drive_ = 0;
  Index reached_ = program::kNone, read_ = program::kNone, updated_ = program::kNone;  // events
};

// The CPUs' update of units whose states are offloaded; the gradients have reached the host.
template <typename Units>
void UpdateOnHost(HostOffload& offload, Units& units) {
  std::int64_t elements = 0;
  for (auto& unit : units) {
    elements += unit.state.elements;
    unit.state.has_gradient = false;
  }
  offload.Update(elements);
}

// What one node must hold for its ranks, in memory and on its drives: states that are offloaded,
// and a checkpoint that is being written while training goes on.
struct HostBytes {
  Bytes memory, drives;
};
HostBytes HostBytesOfNode(const scenario::Scenario& scenario);

}  // namespace stepcast::lowering
