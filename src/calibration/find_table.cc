#include "src/calibration/find_table.h"

namespace stepcast::calibration {

const CollectiveTable* FindTable(const std::vector<CollectiveTable>& tables,
                                 CollectiveKind collective, int ranks, int nodes) {
  for (const CollectiveTable& table : tables) {
    if (table.collective == collective && table.ranks == ranks && table.nodes == nodes) {
      return &table;
    }
  }
  return nullptr;
}

const CollectiveTable* FindTableOfFlatCluster(const std::vector<CollectiveTable>& tables,
                                              CollectiveKind collective, int ranks) {
  const CollectiveTable* widest = nullptr;
  for (const CollectiveTable& table : tables) {
    if (table.collective != collective || table.ranks != ranks) continue;
    if (widest == nullptr || table.nodes > widest->nodes) widest = &table;
  }
  return widest;
}

}  // namespace stepcast::calibration
