#include "src/runtime/cuda/communicator_ids.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"

namespace stepcast::runtime::cuda {
namespace {

// Texts one behind the other, each after its length: 4 bytes, of the machine's byte order (all
// ranks of a job run on one kind of machine).
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

Attempt<std::vector<std::string>> ExchangeCommunicatorIds(
    const program::Program& program, Job& job, const std::function<Attempt<std::string>()>& make) {
  const std::size_t count = program.communicators.size();
  if (count == 0) return std::vector<std::string>();
  const auto ranks = static_cast<std::size_t>(job.place().ranks);
  const auto first_rank = [&](std::size_t communicator) {
    return program.groups[program.communicators[communicator].group].ranks.front();
  };

  std::vector<std::string> own(count);
  for (std::size_t c = 0; c < count; ++c) {
    if (first_rank(c) != job.place().rank) continue;
    Attempt<std::string> id = make();
    if (!id) return tl::make_unexpected(std::move(id).error());
    own[c] = std::move(*id);
  }
  Attempt<std::vector<std::string>> gathered = job.Gather(Packed(own));
  if (!gathered) return tl::make_unexpected(std::move(gathered).error());
  std::string table;
  for (const std::string& part : *gathered) table += part;
  Attempt<std::string> all = job.Broadcast(std::move(table));
  if (!all) return tl::make_unexpected(std::move(all).error());
  Attempt<std::vector<std::string>> ids = Unpacked(*all, ranks * count);
  if (!ids) return tl::make_unexpected(std::move(ids).error());

  std::vector<std::string> mine(count);
  for (std::size_t c = 0; c < count; ++c) {
    const int first = first_rank(c);
    STEPCAST_CHECK(first >= 0 && static_cast<std::size_t>(first) < ranks,
                   "a group's ranks are ranks of the job");
    mine[c] = (*ids)[static_cast<std::size_t>(first) * count + c];
  }
  return mine;
}

int RankInGroup(const program::Program& program, program::Index communicator, int rank) {
  const std::vector<int>& ranks = program.groups[program.communicators[communicator].group].ranks;
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

}  // namespace stepcast::runtime::cuda
