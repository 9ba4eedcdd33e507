#include "src/lowering/layouts.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "src/base/check.h"

namespace stepcast::lowering {
std::vector<program::Effect> MovesOf(const Pieces& pieces, const program::Elements& target,
                                     const program::Elements& source, double scale) {
  std::vector<program::Effect> moves;
  for (const Piece& piece : pieces) {
    AppendJoined(moves, Scaled(scale, Move(Further(target, piece.offset),
                                           Further(source, piece.offset), piece.elements)));
  }
  return moves;
}

namespace {

std::int64_t RoundedUp(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

std::int64_t FlatLayout::Append(int tensor, std::int64_t count, std::int64_t alignment) {
  const std::int64_t offset = RoundedUp(elements, alignment);
  elements = offset + count;
  exact += count;
  if (count > 0) tensors.push_back({.tensor = tensor, .elements = count, .offset = offset});
  return offset;
}

void FlatLayout::Cut(std::int64_t into, std::int64_t alignment) {
  elements = RoundedUp(elements, alignment);
  ranks = into;
  shard = ShardLength(elements, ranks);
}

FlatLayout Flatten(const model::Model& model, std::span<const int> tensors, std::int64_t ranks,
                   std::int64_t alignment) {
  FlatLayout flat;
  flat.tensors.reserve(tensors.size());
  for (const int tensor : tensors) {
    const std::int64_t elements = model.tensors[tensor].elements;
    if (elements > 0) flat.Append(tensor, elements, std::max<std::int64_t>(alignment, 1));
  }
  flat.Cut(ranks, alignment > 0 ? ranks : 1);
  return flat;
}

Pieces PartsOf(const FlatLayout& flat, std::int64_t index) {
  Pieces parts;
  const std::int64_t begin = index * flat.shard, end = begin + flat.shard;
  for (const Piece& tensor : flat.tensors) {
    const std::int64_t first = std::max(begin, tensor.offset);
    const std::int64_t last = std::min(end, tensor.offset + tensor.elements);
    if (first >= last) continue;
    parts.push_back({.tensor = tensor.tensor,
                     .first = first - tensor.offset,
                     .elements = last - first,
                     .offset = first - begin});
  }
  return parts;
}

std::int64_t FullestRank(std::span<const FlatLayout* const> parameters) {
  if (parameters.empty()) return 0;
  STEPCAST_CHECK(
      std::all_of(parameters.begin(), parameters.end(),
                  [&](const FlatLayout* flat) { return flat->ranks == parameters.front()->ranks; }),
      "all layouts must have the same number of ranks");
  // [rank] how many more tensors it has than the rank before.
  std::vector<std::int64_t> more(static_cast<std::size_t>(parameters.front()->ranks) + 1);
  for (const FlatLayout* flat : parameters) {
    for (const Piece& tensor : flat->tensors) {
      ++more[tensor.offset / flat->shard];
      --more[(tensor.offset + tensor.elements - 1) / flat->shard + 1];
    }
  }
  std::inclusive_scan(more.begin(), more.end(), more.begin());
  return std::max_element(more.begin(), more.end()) - more.begin();
}

std::vector<std::int64_t> FullestRanks(std::span<const FlatLayout* const> parameters) {
  std::map<std::int64_t, std::vector<const FlatLayout*>> by_ranks;
  for (const FlatLayout* flat : parameters) by_ranks[flat->ranks].push_back(flat);
  std::map<std::int64_t, std::int64_t> fullest;
  for (const auto& [ranks, own] : by_ranks) fullest[ranks] = FullestRank(own);
  std::vector<std::int64_t> result;
  result.reserve(parameters.size());
  for (const FlatLayout* flat : parameters) result.push_back(fullest[flat->ranks]);
  return result;
}

BlockLayout::BlockLayout(const model::Model& model, std::span<const int> tensors,
                         std::span<const std::int64_t> lengths, std::int64_t ranks)
    : ranks_(ranks) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t elements = model.tensors[tensors[i]].elements;
    if (elements > 0) Add(tensors[i], elements, lengths[i]);
  }
}

BlockLayout::BlockLayout(const model::Model& model, std::int64_t ranks) : ranks_(ranks) {
  blocks_.reserve(model.tensors.size());
  for (const model::Tensor& tensor : model.tensors) {
    Add(static_cast<int>(blocks_.size()), tensor.elements, ShardLength(tensor.elements, ranks));
  }
}

void BlockLayout::Add(int tensor, std::int64_t elements, std::int64_t length) {
  blocks_.push_back({.tensor = tensor,
                     .elements = elements,
                     .length = length,
                     .offset = shard_,
                     .full_offset = shard_ * ranks_,
                     .exact_offset = exact_});
  shard_ += length;
  exact_ += elements;
}

BlockLayout BlockLayout::Before(std::int64_t elements) const {
  BlockLayout other = *this;
  other.shard_ += elements;
  return other;
}

BlockLayout BlockLayout::Over(std::int64_t ranks) const {
  BlockLayout other = *this;
  other.ranks_ = ranks;
  other.shard_ = shard_ * ranks_ / ranks;
  for (Block& block : other.blocks_) {
    block.length = block.length * ranks_ / ranks;
    block.offset = block.offset * ranks_ / ranks;
  }
  return other;
}

Piece BlockLayout::Own(const Block& block, std::int64_t index) const {
  const std::int64_t first = index * block.length;
  return {.tensor = block.tensor,
          .first = first,
          .elements = std::clamp<std::int64_t>(block.elements - first, 0, block.length),
          .offset = block.offset};
}

namespace {

// A proper edge coloring of a bipartite multigraph in which no vertex has more edges than there are
// colors.
class EdgeColouring {
 public:
  explicit EdgeColouring(int colours) : colours_(colours) {}

  int AddVertex() {
    edge_of_.emplace_back(colours_, kNone);
    return static_cast<int>(edge_of_.size()) - 1;
  }

  void AddEdge(int row, int column) {
    const int edge = static_cast<int>(ends_.size());
    ends_.push_back({row, column});
    colour_.push_back(kNone);
    const int colour = FreeAt(row);
    if (edge_of_[column][colour] != kNone) Flip(column, colour, FreeAt(column));
    Paint(edge, colour);
  }

  int colour(int edge) const { return colour_[edge]; }

 private:
  static constexpr int kNone = -1;

  int FreeAt(int vertex) const {
    int colour = 0;
    while (edge_of_[vertex][colour] != kNone) ++colour;
    return colour;
  }

  void Paint(int edge, int colour) {
    colour_[edge] = colour;
    for (const int vertex : ends_[edge]) edge_of_[vertex][colour] = edge;
  }

  // Swaps two colours along the path that leaves `vertex` with colour `taken`; `vertex` has no edge
  // of colour `free`. The graph is bipartite, so the path never reaches the row that lacks `taken`.
  void Flip(int vertex, int taken, int free) {
    std::vector<int> path;
    for (int colour = taken; edge_of_[vertex][colour] != kNone;
         colour = colour == taken ? free : taken) {
      const int edge = edge_of_[vertex][colour];
      path.push_back(edge);
      vertex = ends_[edge][0] == vertex ? ends_[edge][1] : ends_[edge][0];
    }
    for (const int edge : path) {
      for (const int end : ends_[edge]) edge_of_[end][colour_[edge]] = kNone;
    }
    for (const int edge : path) Paint(edge, colour_[edge] == taken ? free : taken);
  }

  const int colours_;
  std::vector<std::vector<int>> edge_of_;  // by vertex and colour
  std::vector<std::array<int, 2>> ends_;   // by edge: row, column
  std::vector<int> colour_;                // by edge
};

// The vertices that a row or column is split into; each takes as many edges as there are colors.
struct SplitVertex {
  int vertex = 0;
  int edges = 0;
};

}  // namespace

std::vector<std::vector<std::int64_t>> BalancedPartition(std::span<const Cell> cells, int ranks) {
  EdgeColouring colouring(ranks);
  std::map<int, SplitVertex> rows, columns;
  const auto vertex_of = [&](std::map<int, SplitVertex>& side, int key) {
    const auto [found, is_new] = side.try_emplace(key);
    SplitVertex& split = found->second;
    if (is_new || split.edges == ranks) split = {colouring.AddVertex(), 0};
    ++split.edges;
    return split.vertex;
  };
  std::vector<std::vector<std::int64_t>> shares;
  std::vector<std::size_t> cell_of_edge;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    shares.emplace_back(ranks, cells[c].elements / ranks);
    for (std::int64_t i = 0; i < cells[c].elements % ranks; ++i) {
      const int row = vertex_of(rows, cells[c].row);
      colouring.AddEdge(row, vertex_of(columns, cells[c].column));
      cell_of_edge.push_back(c);
    }
  }
  for (std::size_t edge = 0; edge < cell_of_edge.size(); ++edge) {
    ++shares[cell_of_edge[edge]][colouring.colour(static_cast<int>(edge))];
  }
  return shares;
}

std::vector<TensorPieces::Place> TensorPieces::PlacesOf(const model::Model& model,
                                                        std::span<const Group> groups) {
  std::vector<Place> places(model.tensors.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::int64_t offset = 0;
    for (const int tensor : groups[g].tensors) {
      places[tensor] = {.group = static_cast<int>(g), .offset = offset};
      offset += model.tensors[tensor].elements;
    }
  }
  return places;
}

void TensorPieces::LayOut(const model::Model& model, std::span<const Group> buckets,
                          std::span<const Group> groups, std::int64_t ranks, bool cut) {
  const auto& tensors = model.tensors;
  gradients_ = PlacesOf(model, buckets);
  parameters_ = groups.empty() ? gradients_ : PlacesOf(model, groups);
  is_unit_.assign(buckets.size(), false);
  if (!groups.empty()) LayOutLikeUnits(buckets, groups);
  pieces_.reserve(tensors.size());
  first_piece_.reserve(tensors.size() + 1);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    first_piece_.push_back(pieces_.size());
    pieces_.push_back({.first = 0,
                       .elements = tensors[t].elements,
                       .gradient = gradients_[t].offset,
                       .parameter = parameters_[t].offset});
  }
  first_piece_.push_back(pieces_.size());
  if (!cut) return;
  if (!groups.empty()) CutAcross(model, buckets, groups, ranks);
  in_bucket_.resize(buckets.size());
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const int tensor = static_cast<int>(t);
    for (const TensorPiece& piece : Of(tensor)) {
      in_bucket_[gradients_[t].group].emplace_back(tensor, piece);
    }
  }
  for (auto& pieces : in_bucket_) {
    std::sort(pieces.begin(), pieces.end(),
              [](const auto& a, const auto& b) { return a.second.gradient < b.second.gradient; });
  }
}

// A bucket with exactly a unit's tensors uses the unit's layout, so that a rank's part of both is
// the same.
void TensorPieces::LayOutLikeUnits(std::span<const Group> buckets, std::span<const Group> groups) {
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const std::span<const int> tensors = buckets[b].tensors;
    if (tensors.empty()) continue;
    const int unit = parameters_[tensors.front()].group;
    const auto in_unit = [&](int tensor) { return parameters_[tensor].group == unit; };
    is_unit_[b] = tensors.size() == groups[unit].tensors.size() &&
                  std::all_of(tensors.begin(), tensors.end(), in_unit);
    if (!is_unit_[b]) continue;
    for (const int tensor : tensors) gradients_[tensor].offset = parameters_[tensor].offset;
  }
}

// A rank's part of the buckets must be its part of the units. The common elements of a bucket and a
// unit are divided so that both are even, and their tensors are stored in pieces, rank by rank.
void TensorPieces::CutAcross(const model::Model& model, std::span<const Group> buckets,
                             std::span<const Group> groups, std::int64_t ranks) {
  std::vector<Cell> cells;
  std::vector<std::vector<int>> tensors_of_cell;
  std::vector<std::vector<TensorPiece>> cut(model.tensors.size());  // in pieces, by tensor
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    if (is_unit_[b]) continue;
    const std::size_t first_cell = cells.size();
    for (const int tensor : buckets[b].tensors) {
      const int unit = parameters_[tensor].group;
      std::size_t cell = first_cell;
      while (cell < cells.size() && cells[cell].column != unit) ++cell;
      if (cell == cells.size()) {
        cells.push_back({.row = static_cast<int>(b), .column = unit});
        tensors_of_cell.emplace_back();
      }
      cells[cell].elements += model.tensors[tensor].elements;
      tensors_of_cell[cell].push_back(tensor);
    }
  }
  const auto shares = BalancedPartition(cells, static_cast<int>(ranks));
  // How many elements of each rank's part are already taken.
  const std::vector<std::int64_t> none(static_cast<std::size_t>(ranks), 0);
  std::vector<std::vector<std::int64_t>> in_bucket(buckets.size(), none);
  std::vector<std::vector<std::int64_t>> in_unit(groups.size(), none);
  for (std::size_t c = 0; c < cells.size(); ++c) {
    std::size_t rank = 0;
    std::int64_t left = shares[c][0];
    for (const int tensor : tensors_of_cell[c]) {
      const std::int64_t elements = model.tensors[tensor].elements;
      for (std::int64_t first = 0; first < elements;) {
        while (left == 0) left = shares[c][++rank];
        const std::int64_t count = std::min(left, elements - first);
        std::int64_t& bucket_taken = in_bucket[cells[c].row][rank];
        std::int64_t& unit_taken = in_unit[cells[c].column][rank];
        const auto r = static_cast<std::int64_t>(rank);
        cut[tensor].push_back({.first = first,
                               .elements = count,
                               .gradient = r * buckets[cells[c].row].part + bucket_taken,
                               .parameter = r * groups[cells[c].column].part + unit_taken});
        bucket_taken += count;
        unit_taken += count;
        first += count;
        left -= count;
      }
    }
  }
  const std::vector<TensorPiece> whole = std::exchange(pieces_, {});
  for (std::size_t t = 0; t < whole.size(); ++t) {
    first_piece_[t] = pieces_.size();
    if (is_unit_[gradients_[t].group]) {
      pieces_.push_back(whole[t]);
    } else {
      pieces_.insert(pieces_.end(), cut[t].begin(), cut[t].end());
    }
  }
  first_piece_.back() = pieces_.size();
}

}  // namespace stepcast::lowering
