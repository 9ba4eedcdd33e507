#pragma once

#include <cstdint>
#include <optional>

#include "src/base/bytes.h"
#include "src/base/rates.h"
#include "src/base/time.h"

// What hosts do for a training step beside starting kernels.
namespace stepcast::plan {

// `training.data_loading`: torch.utils.data.DataLoader.
struct DataLoading {
  Time time;                   // that one process takes to make a rank's micro-batch
  std::int64_t workers = 0;    // processes of a rank; 0: its own
  std::int64_t prefetch = 2;   // micro-batches that each worker makes ahead
  bool pin_memory = true;      // the copy to the device does not hold the host up
  std::optional<Bytes> bytes;  // of a micro-batch; not set: two 64-bit integers a token
  friend bool operator==(const DataLoading&, const DataLoading&) = default;
};

// When the training goes on: after the state is in storage, or after it is in the host's memory.
enum class CheckpointMode : std::uint8_t { kSync, kAsync };
const char* Name(CheckpointMode mode);  // "sync"

// `training.checkpoint_saving`: what a step bears of it, on average over many steps.
struct CheckpointSaving {
  std::int64_t every = 1000;  // steps
  CheckpointMode mode = CheckpointMode::kSync;
  Bandwidth bandwidth;  // of a node to its storage
  friend bool operator==(const CheckpointSaving&, const CheckpointSaving&) = default;
};

}  // namespace stepcast::plan
