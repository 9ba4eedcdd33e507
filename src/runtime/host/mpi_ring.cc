#include "src/runtime/host/mpi_ring.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "src/runtime/host/simd_kernels.h"
#include "src/runtime/mpi_failure.h"
#include "src/runtime/values/number_types.h"

namespace stepcast::runtime::host {
namespace {

// Open MPI's TCP sends messages of up to 64 KiB, header included, eagerly (btl_tcp_eager_limit).
constexpr std::int64_t kPieceBytes = 60 << 10;
// The number of pieces in flight: 1.9 MiB. It keeps a link of 1 Gbit/s busy for 15 ms in which a
// rank has no core, and a link of 100 Gbit/s during the latency of its messages.
constexpr std::int64_t kSlots = 32;
// Tags are piece numbers modulo this, the range that MPI guarantees. Pieces that far apart are
// never in flight together.
constexpr std::int64_t kTags = 32768;
constexpr long kPauseNanoseconds = 50'000;

// sum = (received + own) / divisor
template <typename T>
void AddSlices(const T* received, const T* own, T* sum, std::int64_t count, float divisor) {
  if constexpr (std::is_same_v<T, float>) return AddAndDivide(received, own, count, divisor, sum);
  if (divisor == 1.0f) {
    for (std::int64_t i = 0; i < count; ++i) {
      sum[i] = values::FromFp32<T>(values::ToFp32(received[i]) + values::ToFp32(own[i]));
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const T whole = values::FromFp32<T>(values::ToFp32(received[i]) + values::ToFp32(own[i]));
    sum[i] = values::FromFp32<T>(values::ToFp32(whole) / divisor);
  }
}

// A ring of one member copies.
Attempt<void> CopyOf(const char* source, char* target, std::int64_t bytes) {
  if (source != target) std::memcpy(target, source, static_cast<std::size_t>(bytes));
  return {};
}

void Pause() {
  const timespec pause{0, kPauseNanoseconds};
  nanosleep(&pause, nullptr);
}

}  // namespace

MpiRing::MpiRing(MPI_Comm communicator, int position, int members)
    : communicator_(communicator), position_(position), members_(members) {}

Attempt<void> MpiRing::ReduceScatter(const char* source, char* result, std::int64_t elements,
                                     DataType type, bool average) {
  if (members_ == 1) return CopyOf(source, result, elements * SizeOf(type));
  return Run({.source = source,
              .own = result,
              .elements = elements,
              .element_bytes = SizeOf(type),
              .type = type,
              .average = average,
              .first_step = 0,
              .last_step = members_ - 2});
}

Attempt<void> MpiRing::AllGather(char* data, std::int64_t elements,
                                 std::int64_t bytes_per_element) {
  if (members_ == 1) return {};
  return Run({.gathered = data,
              .elements = elements,
              .element_bytes = bytes_per_element,
              .first_step = members_ - 1,
              .last_step = 2 * members_ - 3});
}

Attempt<void> MpiRing::AllReduce(const char* source, char* target, std::int64_t elements,
                                 DataType type, bool average) {
  if (members_ == 1) return CopyOf(source, target, elements * SizeOf(type));
  const std::int64_t own = elements * position_ / members_ * SizeOf(type);
  return Run({.source = source,
              .own = target + own,
              .gathered = target,
              .elements = elements,
              .element_bytes = SizeOf(type),
              .type = type,
              .average = average,
              .first_step = 0,
              .last_step = 2 * members_ - 3});
}

MpiRing::Slice MpiRing::SliceOf(const Job& job, int part, std::int64_t piece) const {
  const std::int64_t begin = job.elements * part / members_;
  const std::int64_t size = job.elements * (part + 1) / members_ - begin;
  const std::int64_t first = size * piece / pieces_;
  return {begin + first, size * (piece + 1) / pieces_ - first};
}

Attempt<void> MpiRing::Run(const Job& job) {
  const std::int64_t part_bytes = (job.elements + members_ - 1) / members_ * job.element_bytes;
  pieces_ = std::max<std::int64_t>((part_bytes + kPieceBytes - 1) / kPieceBytes, 1);
  begun_ = 0;
  slots_.assign(static_cast<std::size_t>(std::min(pieces_, kSlots)), Slot());
  requests_.assign(2 * slots_.size(), MPI_REQUEST_NULL);
  completed_.resize(requests_.size());
  piece_bytes_ = (part_bytes / job.element_bytes / pieces_ + 1) * job.element_bytes;
  const std::size_t scratch = 2 * slots_.size() * static_cast<std::size_t>(piece_bytes_);
  if (job.source != nullptr && scratch_.size() < scratch) scratch_.resize(scratch);

  Attempt<void> done;
  std::size_t unfinished = slots_.size();
  for (int slot = 0; done && slot < static_cast<int>(slots_.size()); ++slot) {
    done = Begin(job, slot);
  }
  while (done && unfinished > 0) {
    int count = 0;
    done = CheckMpi(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                 completed_.data(), MPI_STATUSES_IGNORE),
                    "go on with a collective");
    if (!done) break;
    if (count == 0 || count == MPI_UNDEFINED) {
      Pause();
      continue;
    }
    for (int i = 0; done && i < count; ++i) {
      const int index = completed_[i] / 2;
      Slot& slot = slots_[index];
      if (--slot.outstanding > 0) continue;
      Complete(job, index);
      if (slot.step++ != job.last_step) {
        done = Post(job, index);
      } else if (begun_ < pieces_) {
        done = Begin(job, index);
      } else {
        --unfinished;
      }
    }
  }
  return done;
}

// Starts the next piece in a slot.
Attempt<void> MpiRing::Begin(const Job& job, int slot) {
  slots_[slot] = {.piece = begun_++, .step = job.first_step, .outstanding = 0};
  return Post(job, slot);
}

// In step s of the reduction, a member sends its partial sum of the part s + 1 places back, and
// receives the part before that one. After the last step it has its own part. In step t of the
// gather it forwards the part t places back.
Attempt<void> MpiRing::Post(const Job& job, int slot) {
  const int step = slots_[slot].step;
  const bool reduces = step < members_ - 1;
  const int back = reduces ? step + 1 : step - (members_ - 1);
  const std::int64_t piece = slots_[slot].piece;
  const Slice sent = SliceOf(job, Part(back), piece);
  const Slice received = SliceOf(job, Part(back + 1), piece);
  const int tag = static_cast<int>(piece % kTags);
  const char* from = nullptr;
  char* to = nullptr;
  if (!reduces) {
    from = job.gathered + sent.begin * job.element_bytes;
    to = job.gathered + received.begin * job.element_bytes;
  } else {
    from = step == 0 ? job.source + sent.begin * job.element_bytes : Scratch(slot, (step + 1) % 2);
    to = Scratch(slot, step % 2);
  }
  slots_[slot].outstanding = 2;
  Attempt<void> done =
      CheckMpi(MPI_Irecv(to, static_cast<int>(received.count * job.element_bytes), MPI_BYTE,
                         Part(1), tag, communicator_, &requests_[2 * slot]),
               "receive a part of a collective");
  if (!done) return done;
  return CheckMpi(MPI_Isend(from, static_cast<int>(sent.count * job.element_bytes), MPI_BYTE,
                            Part(-1), tag, communicator_, &requests_[2 * slot + 1]),
                  "send a part of a collective");
}

void MpiRing::Complete(const Job& job, int slot) {
  const int step = slots_[slot].step;
  if (step >= members_ - 1) return;
  const bool last = step == members_ - 2;
  const Slice slice = SliceOf(job, Part(step + 2), slots_[slot].piece);
  char* received = Scratch(slot, step % 2);
  const char* own = job.source + slice.begin * job.element_bytes;
  char* sum = received;
  if (last) {
    const Slice part = {job.elements * position_ / members_, 0};
    sum = job.own + (slice.begin - part.begin) * job.element_bytes;
  }
  const float divisor = last && job.average ? static_cast<float>(members_) : 1.0f;
  values::WithStorageType(job.type, [&](auto storage) {
    using T = decltype(storage);
    AddSlices(reinterpret_cast<const T*>(received), reinterpret_cast<const T*>(own),
              reinterpret_cast<T*>(sum), slice.count, divisor);
  });
}

}  // namespace stepcast::runtime::host
