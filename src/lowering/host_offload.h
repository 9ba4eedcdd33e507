#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/lowering/training_step.h"
#include "src/scenario/scenario.h"

// ZeRO-Offload, ZeRO-Infinity and FSDP's CPU offload. States are in the node's memory or on its
// NVMe drives, and are copied to and from the device. The node's CPUs run the optimizer, as
// operations with a given duration on the compute stream. NVMe reads and writes have a separate
// stream. All ranks of a node work at the same time and share its memory bandwidth and drives.
namespace stepcast::lowering {

// The locations of the optimizer's states and the parameters.
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

  // Adds streams and events to the program. Call this function before the first step.
  void WritePrologue();

  // Writes an update of `elements` parameters on the CPUs. States on NVMe drives are read before
  // the update and written back after it. The host is busy during the update.
  void Update(std::int64_t elements);

  // Writes the same update as Update, but as a host task. The host must have waited for the
  // gradients.
  void UpdateOnHost(std::int64_t elements);

  // Makes the CPUs add `elements` gradients, which `stream` has copied to the host, to the
  // gradients in host memory. The host is busy during the addition.
  void AccumulateOnHost(StreamId stream, std::int64_t elements);

  // Writes the gradients of `elements` parameters to NVMe, after `stream` has copied them to the
  // host.
  void GradientsOnward(StreamId stream, std::int64_t elements);
  // ParametersInto makes `stream` wait until `bytes` of parameters are read from NVMe.
  // ParametersOnward writes updated parameters to NVMe. Both functions do nothing for parameters in
  // host memory.
  void ParametersInto(StreamId stream, Bytes bytes);
  void ParametersOnward(Bytes bytes);

 private:
  Time AtRate(Bytes bytes, Bandwidth of_node) const;
  // Returns the host memory bandwidth that kernels on the CPUs achieve.
  Bandwidth Achieved() const;
  Time UpdateTime(std::int64_t elements) const;
  void RunOnDrive(StreamId before, const char* name, Time time);

  TrainingStep& step_;
  ProgramBuilder& builder_;
  const StatePlaces places_;
  const std::int64_t ranks_of_node_;
  topology::Host host_{};
  StreamId drive_ = 0;
  Index reached_ = program::kNone, read_ = program::kNone, updated_ = program::kNone;  // events
};

// Updates units on the CPUs. The units' states must be offloaded, and their gradients must be on
// the host.
template <typename Units>
void UpdateOnHost(HostOffload& offload, Units& units) {
  std::int64_t elements = 0;
  for (auto& unit : units) {
    elements += unit.state.elements;
    unit.state.has_gradient = false;
  }
  offload.Update(elements);
}

// The bytes that one node stores for its ranks in memory and on drives: offloaded states, and a
// checkpoint that is still being written.
struct HostBytes {
  Bytes memory, drives;
};
HostBytes HostBytesOfNode(const scenario::Scenario& scenario);

}  // namespace stepcast::lowering
