#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/runtime/cuda/communicators.h"

namespace stepcast::runtime::cuda {
namespace {

// Texts one after another, each with its length in front: 4 bytes in the machine's byte order,
// since all ranks of a job run on one kind of machine.
std::string Packed(const std::vector<std::string>& texts) {
  std::string packed;
  for (const std::string& text : texts) {
    const auto length = static_cast<std::uint32_t>(text.size());
    char bytes[sizeof length];
    std::memcpy(bytes, &length, sizeof length);
    packed.append(bytes, sizeof length);
    packed += text;
  }
  return packed;
}

Attempt<std::vector<std::string>> Unpacked(std::string_view packed, std::size_t count) {
  std::vector<std::string> texts;
  while (!packed.empty()) {
    std::uint32_t length = 0;
    if (packed.size() < sizeof length) break;
    std::memcpy(&length, packed.data(), sizeof length);
    packed.remove_prefix(sizeof length);
    if (packed.size() < length) break;
    texts.emplace_back(packed.substr(0, length));
    packed.remove_prefix(length);
  }
  if (!packed.empty() || texts.size() != count) {
    return tl::make_unexpected(
        Failure{fmt::format("the ranks disagree about the program's communicators: {} ids where {} "
                            "are due",
                            texts.size(), count)});
  }
  return texts;
}

}  // namespace

namespace {

// Gathers the bytes of every rank at every rank.
Attempt<std::vector<std::string>> GatherEverywhere(Job& job, std::string own) {
  Attempt<std::vector<std::string>> gathered = job.Gather(std::move(own));
  if (!gathered) return gathered;
  Attempt<std::string> all = job.Broadcast(Packed(*gathered));
  if (!all) return tl::make_unexpected(std::move(all).error());
  return Unpacked(*all, static_cast<std::size_t>(job.place().ranks));
}

}  // namespace

Attempt<std::vector<std::string>> ExchangeCommunicatorIds(
    const program::Program& program, Job& job, const std::vector<bool>& held,
    const std::function<Attempt<std::string>()>& make) {
  const std::size_t count = program.communicators.size();
  if (count == 0) return std::vector<std::string>();
  const auto ranks_of = [&](std::size_t c) -> const std::vector<int>& {
    return program.groups[program.communicators[c].group].ranks;
  };

  // If one member lacks a communicator, its whole group makes a new one.
  std::string own_held;
  for (const bool one : held) own_held += one ? '1' : '0';
  Attempt<std::vector<std::string>> all_held = GatherEverywhere(job, own_held);
  if (!all_held) return all_held;
  std::vector<bool> missing(count, false);
  for (std::size_t c = 0; c < count; ++c) {
    for (const int rank : ranks_of(c)) {
      STEPCAST_CHECK(rank >= 0 && rank < job.place().ranks, "a group's ranks are ranks of the job");
      const std::string& of_rank = (*all_held)[static_cast<std::size_t>(rank)];
      if (of_rank.size() != count) {
        return tl::make_unexpected(Failure{
            fmt::format("the ranks disagree about the program's communicators: {} where {} are due",
                        of_rank.size(), count)});
      }
      missing[c] = missing[c] || of_rank[c] == '0';
    }
  }

  std::vector<std::string> own(count);
  for (std::size_t c = 0; c < count; ++c) {
    if (!missing[c] || ranks_of(c).front() != job.place().rank) continue;
    Attempt<std::string> id = make();
    if (!id) return tl::make_unexpected(std::move(id).error());
    own[c] = std::move(*id);
  }
  Attempt<std::vector<std::string>> packed = GatherEverywhere(job, Packed(own));
  if (!packed) return packed;
  std::vector<std::string> mine(count);
  for (std::size_t c = 0; c < count; ++c) {
    if (!missing[c]) continue;
    const auto first = static_cast<std::size_t>(ranks_of(c).front());
    Attempt<std::vector<std::string>> ids = Unpacked((*packed)[first], count);
    if (!ids) return ids;
    mine[c] = (*ids)[c];
  }
  return mine;
}

int RankInGroup(const program::Program& program, program::Index communicator, int rank) {
  const std::vector<int>& ranks = program.groups[program.communicators[communicator].group].ranks;
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

}  // namespace stepcast::runtime::cuda
