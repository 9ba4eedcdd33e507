#include "src/base/nccl_tests_convention.h"

#include <string>

namespace stepcast {
namespace {

enum class Factor : std::uint8_t { kOne, kOthers, kTwiceOthers };
enum class Parts : std::uint8_t { kWhole, kEven, kAligned };

struct Convention {
  std::string_view collective;  // CollectiveKind's name
  std::string_view program;     // of nccl-tests, without "_perf"
  Factor factor = Factor::kOne;
  Parts parts = Parts::kWhole;
};

// One row for each program of nccl-tests.
constexpr Convention kConventions[] = {
    {"all_reduce", "all_reduce", Factor::kTwiceOthers, Parts::kWhole},
    {"reduce_scatter", "reduce_scatter", Factor::kOthers, Parts::kAligned},
    {"all_gather", "all_gather", Factor::kOthers, Parts::kAligned},
    {"all_to_all", "alltoall", Factor::kOthers, Parts::kAligned},
    {"broadcast", "broadcast", Factor::kOne, Parts::kWhole},
    {"reduce", "reduce", Factor::kOne, Parts::kWhole},
    {"gather", "gather", Factor::kOthers, Parts::kEven},
    {"scatter", "scatter", Factor::kOthers, Parts::kEven},
    {"send_recv", "sendrecv", Factor::kOne, Parts::kWhole},
};

const Convention& ConventionOf(CollectiveKind kind) {
  for (const Convention& convention : kConventions) {
    if (convention.collective == Name(kind)) return convention;
  }
  return kConventions[0];
}

// Removes separators and case: "AllReduce" and "all_reduce" become equal.
std::string Letters(std::string_view text) {
  std::string letters;
  for (const char c : text) {
    if (c == '_') continue;
    letters += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return letters;
}

}  // namespace

Bytes NcclTestsSize(CollectiveKind kind, Bytes asked, int ranks) {
  constexpr std::int64_t kUnit = 16;
  const Parts parts = ConventionOf(kind).parts;
  if (parts == Parts::kWhole) return asked;
  std::int64_t part = asked.count() / ranks;
  if (parts == Parts::kAligned) part -= part % kUnit;
  return Bytes(part * ranks);
}

double BusFactor(CollectiveKind kind, int ranks) {
  const Factor factor = ConventionOf(kind).factor;
  if (factor == Factor::kOne) return 1;
  return (factor == Factor::kTwiceOthers ? 2.0 : 1.0) * (ranks - 1) / ranks;
}

std::optional<CollectiveKind> CollectiveOfNcclTest(std::string_view program) {
  program = program.substr(program.rfind('/') + 1);
  for (const std::string_view ending : {"_mpi", "_perf"}) {
    if (program.ends_with(ending)) program.remove_suffix(ending.size());
  }
  const std::string letters = Letters(program);
  for (const Convention& convention : kConventions) {
    if (Letters(convention.program) == letters) {
      return CollectiveKindFromName(convention.collective);
    }
  }
  return std::nullopt;
}

}  // namespace stepcast
