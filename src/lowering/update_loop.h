#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "src/lowering/training_step.h"

// Writes the update of an optimizer that goes through tensors one after another, with temporary
// tensors between its kernels.
namespace stepcast::lowering {

class UpdateLoop {
 public:
  // Kernels run on `stream`. `uses`: gradients and states; `updates`: what happens to them, said of
  // the last kernel.
  UpdateLoop(TrainingStep& step, StreamId stream, std::span<const program::BufferUse> uses,
             std::span<const program::Effect> updates);

  // Runs `body`, which calls what stands below, twice: first to count its kernels, of which the
  // first and the last name all of `uses` (stream order is between them).
  template <typename Body>
  void Write(const Body& body) {
    counting_ = true;
    body();
    counting_ = false;
    body();
  }

  // A temporary tensor of the stream; kNone while kernels are counted.
  Index Make(Bytes size);
  void Free(Index buffer);

  // A kernel that memory bounds. `name` is a literal. `temporaries`: what it reads or writes.
  void Run(const char* name, DataType type, Bytes read, Bytes written,
           std::initializer_list<Index> temporaries = {});
  // `batch` products of [m, k] and [k, n], of elements of `size` bytes in memory; with `adds` the
  // outcome is added to what is there.
  struct Product {
    const char* name;
    std::int64_t batch = 1, m = 0, n = 0, k = 0;
    std::int64_t size = 2;
    bool adds = false;
    ProductLayout layout = ProductLayout::kForward;
  };
  void Multiply(const Product& product, std::initializer_list<Index> temporaries);

  // The host waits until all that was issued on the stream is done.
  void AwaitOnHost();

  // An all-to-all of `bytes` of each rank, itself included, from one temporary to another, once the
  // update's stream has come this far. Returns the event for Await; kNone while kernels are
  // counted.
  Index Exchange(StreamId stream, Index communicator, Bytes bytes, Index source, Index target);
  // The update's stream waits for it.
  void Await(Index event);

 private:
  // Counts a kernel, or writes it.
  template <typename Add>
  void RunKernel(
      const std::tuple<const char*, std::int64_t, std::int64_t, std::int64_t, std::int64_t>& key,
      const Add& add, std::initializer_list<Index> temporaries);

  ProgramBuilder& builder_;
  const StreamId stream_;
  const std::span<const program::BufferUse> uses_;
  const std::span<const program::Effect> updates_;
  bool counting_ = false;
  std::int64_t kernels_ = 0, written_ = 0;
  program::NameParts temporary_name_;
  std::map<std::int64_t, std::vector<Index>> free_;  // buffers by size
  std::vector<Index> free_events_;
  Index read_by_host_ = program::kNone;
  // Kernels by name and what tells them apart.
  std::map<std::tuple<const char*, std::int64_t, std::int64_t, std::int64_t, std::int64_t>, Index>
      known_;
};

}  // namespace stepcast::lowering
