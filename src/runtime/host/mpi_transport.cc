#include "src/runtime/host/mpi_transport.h"

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/check.h"
#include "src/runtime/mpi_session.h"
#include "src/runtime/values/number_types.h"

namespace stepcast::runtime::host {
namespace {

// MPI counts with int; larger collectives go in pieces.
constexpr std::int64_t kLargestCount = std::int64_t{1} << 30;

Attempt<void> Checked(int code, const char* what) {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return tl::unexpected(Failure{std::string(what) +
                                " failed: " + std::string(text, static_cast<std::size_t>(length))});
}

template <typename T>
void Add(void* addends, void* sums, int* count, MPI_Datatype* /*type*/) {
  const T* from = static_cast<const T*>(addends);
  T* to = static_cast<T*>(sums);
  for (int i = 0; i < *count; ++i) {
    to[i] = values::FromFp32<T>(values::ToFp32(to[i]) + values::ToFp32(from[i]));
  }
}

// MPI knows no 16-bit floating-point types.
struct Sums {
  MPI_Op bf16 = MPI_OP_NULL;
  MPI_Op fp16 = MPI_OP_NULL;
  Sums() {
    MPI_Op_create(&Add<values::Bf16>, 1, &bf16);
    MPI_Op_create(&Add<values::Fp16>, 1, &fp16);
  }
};

MPI_Op SumOf(DataType type) {
  static const Sums sums;
  switch (type) {
    case DataType::kBf16:
      return sums.bf16;
    case DataType::kFp16:
      return sums.fp16;
    case DataType::kFp32:
    case DataType::kFp8:
      break;
  }
  return MPI_SUM;
}

MPI_Datatype TypeOf(DataType type) {
  switch (SizeOf(type)) {
    case 4:
      return MPI_FLOAT;
    case 2:
      return MPI_UINT16_T;
    default:
      return MPI_UINT8_T;
  }
}

class MpiChannel : public Channel {
 public:
  MpiChannel(MPI_Comm communicator, int position, int members)
      : communicator_(communicator), position_(position), members_(members) {}
  ~MpiChannel() override {
    if (MpiSession::Current() != nullptr) MPI_Comm_free(&communicator_);
  }

  Attempt<void> Run(const CollectiveCall& call) override {
    switch (call.kind) {
      case CollectiveKind::kAllReduce:
        return AllReduce(call);
      case CollectiveKind::kReduceScatter:
        return ReduceScatter(call);
      case CollectiveKind::kAllGather:
        return AllGather(call);
      case CollectiveKind::kBroadcast:
        return Broadcast(call);
    }
    return {};
  }

 private:
  Attempt<void> AllReduce(const CollectiveCall& call) {
    const std::int64_t size = SizeOf(call.type);
    for (std::int64_t at = 0; at < call.elements; at += kLargestCount) {
      const int count = static_cast<int>(std::min(kLargestCount, call.elements - at));
      char* target = static_cast<char*>(call.target) + at * size;
      const void* source = call.source == call.target
                               ? MPI_IN_PLACE
                               : static_cast<const char*>(call.source) + at * size;
      Attempt<void> done = Checked(
          MPI_Allreduce(source, target, count, TypeOf(call.type), SumOf(call.type), communicator_),
          "MPI_Allreduce");
      if (!done) return done;
    }
    if (call.average) Divide(call.target, call.elements, call.type);
    return {};
  }

  Attempt<void> ReduceScatter(const CollectiveCall& call) {
    const std::int64_t size = SizeOf(call.type);
    const std::int64_t part = call.elements / members_;
    const char* source = static_cast<const char*>(call.source);
    char* target = static_cast<char*>(call.target);
    const bool in_place = target >= source && target < source + call.elements * size;
    const std::int64_t piece = std::max<std::int64_t>(1, kLargestCount / members_);
    if (!in_place && part <= piece) {
      Attempt<void> done =
          Checked(MPI_Reduce_scatter_block(source, target, static_cast<int>(part),
                                           TypeOf(call.type), SumOf(call.type), communicator_),
                  "MPI_Reduce_scatter_block");
      if (!done) return done;
    } else {
      // In place, NCCL leaves the result where the rank's part was and MPI at the front, and in
      // pieces the parts of a piece must lie behind one another: results come through memory of
      // our own, and so do operands that have to be rearranged.
      const bool rearrange = part > piece;
      for (std::int64_t at = 0; at < part; at += piece) {
        const std::int64_t count = std::min(piece, part - at);
        Reserve(result_, count * size);
        const void* operands = source;
        if (rearrange) {
          Reserve(operands_, count * members_ * size);
          for (int member = 0; member < members_; ++member) {
            std::memcpy(operands_.data() + member * count * size,
                        source + (member * part + at) * size,
                        static_cast<std::size_t>(count * size));
          }
          operands = operands_.data();
        }
        Attempt<void> done =
            Checked(MPI_Reduce_scatter_block(operands, result_.data(), static_cast<int>(count),
                                             TypeOf(call.type), SumOf(call.type), communicator_),
                    "MPI_Reduce_scatter_block");
        if (!done) return done;
        std::memcpy(target + at * size, result_.data(), static_cast<std::size_t>(count * size));
      }
    }
    if (call.average) Divide(call.target, part, call.type);
    return {};
  }

  Attempt<void> AllGather(const CollectiveCall& call) {
    const std::int64_t size = SizeOf(call.type);
    const std::int64_t part = call.elements / members_;
    const char* source = static_cast<const char*>(call.source);
    char* target = static_cast<char*>(call.target);
    if (part * members_ <= kLargestCount) {
      const bool in_place = source == target + position_ * part * size;
      return Checked(
          MPI_Allgather(in_place ? MPI_IN_PLACE : source, static_cast<int>(part), TypeOf(call.type),
                        target, static_cast<int>(part), TypeOf(call.type), communicator_),
          "MPI_Allgather");
    }
    // In pieces: each member's part from that member to all.
    std::memmove(target + position_ * part * size, source, static_cast<std::size_t>(part * size));
    for (int member = 0; member < members_; ++member) {
      Attempt<void> done = SendToAll(target + member * part * size, part, call.type, member);
      if (!done) return done;
    }
    return {};
  }

  Attempt<void> Broadcast(const CollectiveCall& call) {
    if (position_ == 0 && call.source != call.target) {
      std::memcpy(call.target, call.source,
                  static_cast<std::size_t>(call.elements * SizeOf(call.type)));
    }
    return SendToAll(static_cast<char*>(call.target), call.elements, call.type, 0);
  }

  Attempt<void> SendToAll(char* data, std::int64_t elements, DataType type, int root) {
    for (std::int64_t at = 0; at < elements; at += kLargestCount) {
      const int count = static_cast<int>(std::min(kLargestCount, elements - at));
      Attempt<void> done =
          Checked(MPI_Bcast(data + at * SizeOf(type), count, TypeOf(type), root, communicator_),
                  "MPI_Bcast");
      if (!done) return done;
    }
    return {};
  }

  void Divide(void* data, std::int64_t elements, DataType type) const {
    const float divisor = static_cast<float>(members_);
    values::WithStorageType(type, [&](auto storage) {
      using T = decltype(storage);
      T* at = static_cast<T*>(data);
      for (std::int64_t i = 0; i < elements; ++i) {
        at[i] = values::FromFp32<T>(values::ToFp32(at[i]) / divisor);
      }
    });
  }

  static void Reserve(std::vector<char>& memory, std::int64_t bytes) {
    if (memory.size() < static_cast<std::size_t>(bytes)) {
      memory.resize(static_cast<std::size_t>(bytes));
    }
  }

  MPI_Comm communicator_;
  int position_;
  int members_;
  std::vector<char> result_, operands_;
};

class MpiTransport : public Transport {
 public:
  explicit MpiTransport(MpiSession& session) : session_(session) {}

  Attempt<std::unique_ptr<Channel>> Open(const std::string& /*name*/,
                                         const std::vector<int>& ranks) override {
    MPI_Group world = MPI_GROUP_NULL;
    MPI_Group members = MPI_GROUP_NULL;
    MPI_Comm communicator = MPI_COMM_NULL;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    Attempt<void> done =
        Checked(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &members),
                "MPI_Group_incl");
    if (done) {
      done = Checked(MPI_Comm_create_group(MPI_COMM_WORLD, members, 0, &communicator),
                     "MPI_Comm_create_group");
    }
    if (members != MPI_GROUP_NULL) MPI_Group_free(&members);
    MPI_Group_free(&world);
    if (!done) return tl::unexpected(done.error());
    STEPCAST_CHECK(communicator != MPI_COMM_NULL, "a rank opens communicators that it belongs to");
    MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
    int position = 0;
    MPI_Comm_rank(communicator, &position);
    return std::make_unique<MpiChannel>(communicator, position, static_cast<int>(ranks.size()));
  }

  void Abandon(const std::string& /*why*/) override {}

  std::string Description() const override { return session_.LibraryVersion(); }

 private:
  MpiSession& session_;
};

}  // namespace

Attempt<std::unique_ptr<Transport>> ConnectMpi(const Job& job) {
  MpiSession* session = MpiSession::Current();
  if (session == nullptr || session->rank() != job.place().rank ||
      session->ranks() != job.place().ranks) {
    return nullptr;
  }
  return std::make_unique<MpiTransport>(*session);
}

}  // namespace stepcast::runtime::host
