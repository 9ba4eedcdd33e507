#pragma once

#include <vector>

#include "src/lowering/program_builder.h"

namespace stepcast::lowering {

// What blocks keep for backward waits in the host's memory meanwhile.
//
// Forward: once a block has been computed, its activations are copied to the host on a stream of
// their own, beside the next block's kernels; after these the compute stream waits for the copies,
// and the device's memory is free. The last block's stay: its backward comes next. Backward: when a
// block's begins, the activations of the block before it are copied back beside it. So those of two
// blocks are on the device at once, and the copies show where a block computes for a shorter time
// than the host link needs for its activations. Both ways are pinned memory. As Transformer Engine
// does it with double buffers (NVIDIA/TransformerEngine, transformer_engine/pytorch/
// cpu_offload.py, AsyncDoubleBufferGroupOffloadHandler).
class ActivationOffload {
 public:
  explicit ActivationOffload(ProgramBuilder& builder) : builder_(builder) {}

  // In the order of forward: the layer keeps `buffers`.
  void AddBlock(int layer, Entries buffers);
  // After the last block; nothing if there are not two.
  void WritePrologue();

  // The layer's forward has been written.
  void AfterForward(int layer);
  // The layer's backward comes next.
  void BeforeBackward(int layer);

 private:
  struct Block {
    int layer = 0;
    Entries buffers;
    Index at_host = program::kNone, back = program::kNone;  // events
  };
  bool active() const { return blocks_.size() > 1; }
  // In blocks_; -1: not one of them.
  int Find(int layer) const;

  ProgramBuilder& builder_;
  std::vector<Block> blocks_;
  StreamId to_host_ = 0, to_device_ = 0;
  Index computed_ = program::kNone, begun_ = program::kNone;  // events
};

}  // namespace stepcast::lowering
