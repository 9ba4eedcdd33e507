#include "src/runtime/host/mpi_ring.h"

#include <time.h>

#include <algorithm>
#include <cstring>

#include "src/runtime/mpi_failure.h"
#include "src/runtime/values/number_types.h"

namespace stepcast::runtime::host {
namespace {

// Long against a message's latency, short against the time that a lane takes to pass it.
constexpr std::int64_t kLaneBytes = 64 << 10;
constexpr int kLanes = 4;
// MPI counts with int.
constexpr std::int64_t kLargestMessage = std::int64_t{1} << 30;
constexpr long kPauseNanoseconds = 50'000;

// sum = (received + own) / divisor
template <typename T>
void AddSlices(const T* received, const T* own, T* sum, std::int64_t count, float divisor) {
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

// What a ring of one member does.
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

MpiRing::Slice MpiRing::SliceOf(const Job& job, int part, int lane) const {
  const std::int64_t lanes = static_cast<std::int64_t>(lanes_.size());
  const std::int64_t begin = job.elements * part / members_;
  const std::int64_t size = job.elements * (part + 1) / members_ - begin;
  const std::int64_t first = size * lane / lanes;
  return {begin + first, size * (lane + 1) / lanes - first};
}

Attempt<void> MpiRing::Run(const Job& job) {
  const std::int64_t part_bytes = (job.elements + members_ - 1) / members_ * job.element_bytes;
  const std::int64_t lanes = std::max(std::clamp<std::int64_t>(part_bytes / kLaneBytes, 1, kLanes),
                                      (part_bytes + kLargestMessage - 1) / kLargestMessage);
  lanes_.assign(static_cast<std::size_t>(lanes), {.step = job.first_step, .outstanding = 0});
  requests_.assign(2 * lanes_.size(), MPI_REQUEST_NULL);
  completed_.resize(requests_.size());
  lane_bytes_ = (part_bytes / job.element_bytes / lanes + 1) * job.element_bytes;
  const std::size_t scratch = 2 * lanes_.size() * static_cast<std::size_t>(lane_bytes_);
  if (job.source != nullptr && scratch_.size() < scratch) scratch_.resize(scratch);

  Attempt<void> done;
  std::size_t unfinished = lanes_.size();
  for (int lane = 0; done && lane < static_cast<int>(lanes_.size()); ++lane) done = Post(job, lane);
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
      Lane& lane = lanes_[index];
      if (--lane.outstanding > 0) continue;
      Complete(job, index);
      if (lane.step++ == job.last_step) {
        --unfinished;
      } else {
        done = Post(job, index);
      }
    }
  }
  return done;
}

// In step s of the reduction a member sends what it has summed up of the part that is s + 1 places
// back, and receives that of the part behind it; after the last step it has its own. In step t of
// the gather it passes on the part that is t places back.
Attempt<void> MpiRing::Post(const Job& job, int lane) {
  const int step = lanes_[lane].step;
  const bool reduces = step < members_ - 1;
  const int back = reduces ? step + 1 : step - (members_ - 1);
  const Slice sent = SliceOf(job, Part(back), lane);
  const Slice received = SliceOf(job, Part(back + 1), lane);
  const char* from = nullptr;
  char* to = nullptr;
  if (!reduces) {
    from = job.gathered + sent.begin * job.element_bytes;
    to = job.gathered + received.begin * job.element_bytes;
  } else {
    from = step == 0 ? job.source + sent.begin * job.element_bytes : Scratch(lane, (step + 1) % 2);
    to = Scratch(lane, step % 2);
  }
  lanes_[lane].outstanding = 2;
  Attempt<void> done =
      CheckMpi(MPI_Irecv(to, static_cast<int>(received.count * job.element_bytes), MPI_BYTE,
                         Part(1), lane, communicator_, &requests_[2 * lane]),
               "receive a part of a collective");
  if (!done) return done;
  return CheckMpi(MPI_Isend(from, static_cast<int>(sent.count * job.element_bytes), MPI_BYTE,
                            Part(-1), lane, communicator_, &requests_[2 * lane + 1]),
                  "send a part of a collective");
}

void MpiRing::Complete(const Job& job, int lane) {
  const int step = lanes_[lane].step;
  if (step >= members_ - 1) return;
  const bool last = step == members_ - 2;
  const Slice slice = SliceOf(job, Part(step + 2), lane);
  char* received = Scratch(lane, step % 2);
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
