#include "src/lowering/megatron_alignment.h"

namespace stepcast::lowering {

MegatronAlignment MegatronAlignmentOf(const PipelineStage& stage) {
  const std::vector<parallel::Action>& passes = stage.passes();
  const auto behind = static_cast<std::size_t>(stage.stage());
  const std::size_t chunks = stage.chunks().size();
  std::vector<std::size_t> forwards, backwards;  // passes, in order
  for (std::size_t pass = 0; pass < passes.size(); ++pass) {
    if (passes[pass].task == parallel::Task::kForward) forwards.push_back(pass);
    if (parallel::EndsBackward(passes[pass].task)) backwards.push_back(pass);
  }
  MegatronAlignment alignment{.gathered_before = {}, .reduced_after = {}};
  alignment.gathered_before.resize(passes.size());
  alignment.reduced_after.resize(passes.size());

  std::vector<bool> begun(chunks, false);
  for (std::size_t item = 0; item < forwards.size(); ++item) {
    const std::size_t chunk = stage.chunk_of(passes[forwards[item]]);
    if (begun[chunk]) continue;
    begun[chunk] = true;
    if (item == 0) {
      for (std::size_t first = 0; first < chunks && first < 2; ++first) {
        alignment.gathered_before[forwards[0]].push_back(first);
      }
    } else if (chunk > 0 && chunk + 1 < chunks) {
      const std::size_t sent = item > behind ? item - behind : 0;
      alignment.gathered_before[forwards[sent]].push_back(chunk + 1);
    }
  }
  std::vector<bool> ended(chunks, false);
  for (std::size_t item = backwards.size(); item-- > 0;) {
    const std::size_t chunk = stage.chunk_of(passes[backwards[item]]);
    if (ended[chunk]) continue;
    ended[chunk] = true;
    if (item + behind < backwards.size()) {
      alignment.reduced_after[backwards[item + behind]] = chunk;
    }
  }
  return alignment;
}

}  // namespace stepcast::lowering
