#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

#include "tests/emulated_gpu/block.h"
#include "tests/emulated_gpu/schedule.h"

using emulated::Die;
using emulated::Nanoseconds;
using emulated::Operation;
using emulated::OperationRef;
using emulated::Schedule;

struct CUgraphNode_st {
  cudaGraphNodeType type = cudaGraphNodeTypeKernel;
  emulated::Task task{};
  cudaEvent_t event = nullptr;
  std::vector<std::size_t> before{};  // nodes of the same graph
  int gpu = 0;
};
struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
  bool ended = false;
};
struct CUgraphExec_st {
  std::vector<CUgraphNode_st> nodes;
  std::map<cudaGraphNode_t, std::size_t> index;
  OperationRef last;
};
struct CUstream_st {
  int gpu = 0;
  OperationRef last;
  std::vector<OperationRef> awaited;  // what the next operation also awaits
  cudaGraph_t capture = nullptr;
  std::vector<std::size_t> captured;  // nodes that the next operation follows
};
struct CUevent_st {
  int gpu = 0;
  bool timed = true;
  OperationRef record;
  cudaGraph_t capture = nullptr;
  std::vector<std::size_t> captured;
};
struct CUmemPool_st {
  int gpu = 0;
  std::size_t held = 0, most = 0;
};

namespace {

constexpr std::size_t kMemory = std::size_t{80} << 30;
constexpr int kCache = 64 << 10;
constexpr Nanoseconds kShortest = 2000;
constexpr double kMemoryRate = 3000, kHostRate = 50;  // bytes a nanosecond

thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_gpu = 0;

cudaError_t Answer(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// The beginning of every call that may fail.
#define EMULATED_CALL(failure)                          \
  const std::scoped_lock lock(Schedule::Get().mutex()); \
  if (emulated::CallFails(__func__)) return Answer(failure)

int Gpus() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const char* count = std::getenv("EMULATED_GPUS");
  const int gpus = count == nullptr ? 1 : std::atoi(count);
  if (visible == nullptr) return gpus;
  // The number of leading entries that exist.
  int listed = 0;
  for (const char* at = visible; *at != '\0'; ++listed) {
    char* end = nullptr;
    const long number = std::strtol(at, &end, 10);
    if (end == at || number < 0 || number >= gpus) break;
    at = *end == ',' ? end + 1 : end;
  }
  return listed;
}

std::map<int, CUstream_st>& DefaultStreams() {
  static std::map<int, CUstream_st> streams;
  return streams;
}
std::set<cudaStream_t>& Streams() {
  static std::set<cudaStream_t> streams;
  return streams;
}
CUstream_st& Of(cudaStream_t stream) {
  if (stream == nullptr) {
    CUstream_st& own = DefaultStreams()[current_gpu];
    own.gpu = current_gpu;
    return own;
  }
  if (!Streams().contains(stream)) Die("a stream that is not there");
  return *stream;
}
std::set<cudaEvent_t>& Events() {
  static std::set<cudaEvent_t> events;
  return events;
}
CUevent_st& Of(cudaEvent_t event) {
  if (!Events().contains(event)) Die("an event that is not there");
  return *event;
}

OperationRef MakeOperation(int gpu, const emulated::Task& task) {
  auto operation = std::make_shared<Operation>();
  operation->gpu = gpu;
  if (task.work) {
    operation->work = [self = operation.get(), work = task.work](Nanoseconds begin) {
      return work(*self, begin);
    };
  }
  if (task.collective) emulated::CollectiveSubmitted(operation);
  return operation;
}

OperationRef Append(CUstream_st& stream, const emulated::Task& task) {
  OperationRef operation = MakeOperation(stream.gpu, task);
  std::vector<OperationRef> before = std::exchange(stream.awaited, {});
  before.push_back(stream.last);
  stream.last = operation;
  Schedule& schedule = Schedule::Get();
  schedule.Submit(operation, before);
  // How far the host may run ahead.
  constexpr int kMostOutstanding = 512;
  schedule.RunUntil([&] { return schedule.Outstanding(stream.gpu) < kMostOutstanding; });
  return operation;
}

CUgraphNode_st& AppendNode(CUstream_st& stream, cudaGraphNodeType type) {
  auto& nodes = stream.capture->nodes;
  auto& node = *nodes.emplace_back(std::make_unique<CUgraphNode_st>());
  node.type = type;
  node.before = stream.captured;
  node.gpu = stream.gpu;
  stream.captured = {nodes.size() - 1};
  return node;
}

void Enqueue(CUstream_st& stream, emulated::Task task, cudaGraphNodeType type) {
  if (stream.capture != nullptr) {
    AppendNode(stream, type).task = std::move(task);
  } else {
    Append(stream, task);
  }
}

emulated::Task Lasting(std::function<void()> work, Nanoseconds length) {
  return {.work = [work = std::move(work), length](Operation&, Nanoseconds begin) {
    work();
    return std::optional(begin + length);
  }};
}

struct Allocation {
  std::size_t bytes = 0;
  int gpu = 0;
  cudaMemPool_t pool = nullptr;
};
std::map<void*, Allocation>& Allocations() {
  static std::map<void*, Allocation> allocations;
  return allocations;
}
std::size_t& Used(int gpu) {
  static std::map<int, std::size_t> used;
  return used[gpu];
}

// Unwritten memory is NaN in every type.
void* Take(std::size_t bytes, cudaMemPool_t pool) {
  const int gpu = pool == nullptr ? current_gpu : pool->gpu;
  constexpr std::size_t kUnit = 512;
  bytes = (bytes + kUnit - 1) / kUnit * kUnit;
  if (bytes > kMemory - Used(gpu)) return nullptr;
  void* at = std::aligned_alloc(kUnit, bytes);
  std::memset(at, 0xff, std::min(bytes, std::size_t{4} << 20));
  Used(gpu) += bytes;
  Allocations()[at] = {bytes, gpu, pool};
  return at;
}
void Give(void* at) {
  const auto found = Allocations().find(at);
  if (found == Allocations().end()) Die("memory is freed that was not allocated");
  Used(found->second.gpu) -= found->second.bytes;
  Allocations().erase(found);
  std::free(at);
}

bool AnyCapture(int gpu) {
  return std::any_of(Streams().begin(), Streams().end(), [&](cudaStream_t stream) {
    return stream->gpu == gpu && stream->capture != nullptr;
  });
}

cudaError_t Synchronise(int gpu) {
  if (AnyCapture(gpu)) return cudaErrorStreamCaptureUnsupported;
  Schedule& schedule = Schedule::Get();
  schedule.RunUntil([&] {
    return schedule.Outstanding(gpu) == 0 &&
           std::all_of(Streams().begin(), Streams().end(), [&](cudaStream_t stream) {
             return stream->gpu != gpu || emulated::IsSeen(stream->last);
           });
  });
  return cudaSuccess;
}

}  // namespace

int emulated::CurrentGpu() { return current_gpu; }

void emulated::Enqueue(void* stream, Task task) {
  ::Enqueue(Of(static_cast<cudaStream_t>(stream)), std::move(task), cudaGraphNodeTypeKernel);
}

cudaError_t emulated::LaunchKernel(const cudaLaunchConfig_t& config, const void* kernel,
                                   std::function<void()> thread) {
  const std::scoped_lock lock(Schedule::Get().mutex());
  if (CallFails("cudaLaunchKernelEx")) return Answer(cudaErrorLaunchFailure);
  const dim3 grid = config.gridDim;
  const dim3 threads = config.blockDim;
  constexpr std::size_t kMostShared = 227 << 10;
  if (grid.x == 0 || grid.y == 0 || grid.y > 65535 || threads.x == 0 || threads.x > 1024 ||
      config.dynamicSmemBytes > kMostShared) {
    return Answer(cudaErrorInvalidConfiguration);
  }
  CUstream_st& stream = Of(config.stream);
  if (stream.gpu != current_gpu) Die("a kernel is launched on another GPU's stream");
  char name[32];
  std::snprintf(name, sizeof name, "kernel %p", kernel);
  Load(current_gpu, name);
  ::Enqueue(
      stream,
      {.work =
           [=, shared = config.dynamicSmemBytes](Operation&, Nanoseconds begin) {
             // By kernel, after its first run: whether its threads wait for each other.
             static std::map<const void*, bool> waits;
             const auto known = waits.find(kernel);
             const bool may_wait = known == waits.end() || known->second;
             bool waited = false;
             SetClock(begin);
             gridDim = grid;
             blockDim = threads;
             for (unsigned y = 0; y < grid.y; ++y) {
               for (unsigned x = 0; x < grid.x; ++x) {
                 blockIdx = {x, y, 0};
                 waited = RunBlock(threads.x, shared, thread, may_wait) || waited;
               }
             }
             waits[kernel] = waited;
             return std::optional<Nanoseconds>(std::max<Nanoseconds>(Clock(), begin + kShortest));
           }},
      cudaGraphNodeTypeKernel);
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  EMULATED_CALL(cudaErrorInvalidValue);
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    default:
      return "an error";
  }
}
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaError";
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = Gpus();
  return *count == 0 ? Answer(cudaErrorNoDevice) : cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  EMULATED_CALL(cudaErrorInvalidDevice);
  if (device < 0 || device >= Gpus()) return Answer(cudaErrorInvalidDevice);
  current_gpu = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_gpu;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "Emulated GPU");
  properties->totalGlobalMem = kMemory;
  properties->major = 9;
  properties->multiProcessorCount = 132;
  properties->memoryBusWidth = 5120;
  properties->l2CacheSize = kCache;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMemoryClockRate ? 2'619'000 : kCache;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  std::snprintf(id, static_cast<std::size_t>(length), "0000:%02x:00.0", device);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  EMULATED_CALL(cudaErrorInvalidValue);
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaDeviceSynchronize() {
  EMULATED_CALL(cudaErrorLaunchFailure);
  return Answer(Synchronise(current_gpu));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  EMULATED_CALL(cudaErrorMemoryAllocation);
  *stream = new CUstream_st{.gpu = current_gpu, .last = {}, .awaited = {}, .captured = {}};
  Streams().insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::scoped_lock lock(Schedule::Get().mutex());
  Of(stream);  // its remaining work is done
  if (stream->capture != nullptr) Die("a stream is destroyed that is captured");
  Streams().erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  EMULATED_CALL(cudaErrorLaunchFailure);
  CUstream_st& stream = Of(handle);
  if (stream.capture != nullptr) return Answer(cudaErrorStreamCaptureUnsupported);
  Schedule::Get().RunSome();
  if (!emulated::IsSeen(stream.last)) return Answer(cudaErrorNotReady);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  EMULATED_CALL(cudaErrorLaunchFailure);
  CUstream_st& stream = Of(handle);
  if (stream.capture != nullptr) return Answer(cudaErrorStreamCaptureUnsupported);
  const OperationRef last = stream.last;
  Schedule::Get().RunUntil([&] { return emulated::IsSeen(last); });
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t event_handle, unsigned) {
  EMULATED_CALL(cudaErrorInvalidValue);
  CUstream_st& stream = Of(stream_handle);
  CUevent_st& event = Of(event_handle);
  if (event.capture != nullptr) {
    if (stream.capture == nullptr) {
      if (!stream.awaited.empty()) Die("a stream joins a capture while it waits for something");
      stream.capture = event.capture;
      stream.captured.clear();
    }
    if (stream.capture != event.capture) return Answer(cudaErrorStreamCaptureMerge);
    stream.captured.insert(stream.captured.end(), event.captured.begin(), event.captured.end());
    return cudaSuccess;
  }
  if (stream.capture != nullptr) return Answer(cudaErrorStreamCaptureIsolation);
  if (!emulated::IsSeen(event.record)) stream.awaited.push_back(event.record);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  EMULATED_CALL(cudaErrorMemoryAllocation);
  *event = new CUevent_st{.gpu = current_gpu,
                          .timed = (flags & cudaEventDisableTiming) == 0,
                          .record = {},
                          .captured = {}};
  Events().insert(*event);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::scoped_lock lock(Schedule::Get().mutex());
  Of(event);
  Events().erase(event);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  EMULATED_CALL(cudaErrorInvalidValue);
  CUevent_st& event = Of(handle);
  CUstream_st& stream = Of(stream_handle);
  if (event.gpu != stream.gpu) Die("an event is recorded in another GPU's stream");
  event.capture = stream.capture;
  if (stream.capture != nullptr) {
    event.captured = stream.captured;
    event.record = nullptr;
  } else {
    event.record = Append(stream, {});
  }
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream_handle,
                                     unsigned flags) {
  if (flags != cudaEventRecordExternal) return cudaEventRecord(handle, stream_handle);
  EMULATED_CALL(cudaErrorInvalidValue);
  CUstream_st& stream = Of(stream_handle);
  if (stream.capture == nullptr) return Answer(cudaErrorIllegalState);
  AppendNode(stream, cudaGraphNodeTypeEventRecord).event = &Of(handle);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t handle) {
  EMULATED_CALL(cudaErrorLaunchFailure);
  CUevent_st& event = Of(handle);
  if (event.capture != nullptr) return Answer(cudaErrorCapturedEvent);
  Schedule::Get().RunSome();
  if (!emulated::IsSeen(event.record)) return Answer(cudaErrorNotReady);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  EMULATED_CALL(cudaErrorLaunchFailure);
  const OperationRef record = Of(handle).record;
  Schedule::Get().RunUntil([&] { return emulated::IsSeen(record); });
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  EMULATED_CALL(cudaErrorLaunchFailure);
  const CUevent_st& first = Of(start);
  const CUevent_st& second = Of(end);
  if (!first.timed || !second.timed) return Answer(cudaErrorInvalidValue);
  if (first.record == nullptr || second.record == nullptr) return Answer(cudaErrorInvalidValue);
  if (!emulated::IsSeen(first.record) || !emulated::IsSeen(second.record))
    return Answer(cudaErrorNotReady);
  *milliseconds =
      static_cast<float>(static_cast<double>(second.record->end - first.record->end) * 1e-6);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** at, std::size_t bytes) {
  EMULATED_CALL(cudaErrorMemoryAllocation);
  *at = bytes == 0 ? nullptr : Take(bytes, nullptr);
  return bytes == 0 || *at != nullptr ? cudaSuccess : Answer(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* at) {
  const std::scoped_lock lock(Schedule::Get().mutex());
  if (at == nullptr) return cudaSuccess;
  if (!AnyCapture(current_gpu)) Synchronise(current_gpu);
  Give(at);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** at, std::size_t bytes) {
  EMULATED_CALL(cudaErrorMemoryAllocation);
  *at = std::malloc(bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* at) {
  std::free(at);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::scoped_lock lock(Schedule::Get().mutex());
  *total = kMemory;
  *free = kMemory - Used(current_gpu);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  EMULATED_CALL(cudaErrorInvalidValue);
  const double rate = kind == cudaMemcpyDeviceToDevice ? kMemoryRate / 2 : kHostRate;
  Enqueue(Of(stream),
          Lasting([=] { std::memmove(to, from, bytes); },
                  kShortest + static_cast<Nanoseconds>(static_cast<double>(bytes) / rate)),
          cudaGraphNodeTypeMemcpy);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}
cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t stream) {
  EMULATED_CALL(cudaErrorInvalidValue);
  Enqueue(Of(stream),
          Lasting([=] { std::memset(at, value, bytes); },
                  kShortest + static_cast<Nanoseconds>(static_cast<double>(bytes) / kMemoryRate)),
          cudaGraphNodeTypeMemset);
  return cudaSuccess;
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  EMULATED_CALL(cudaErrorMemoryAllocation);
  *pool = new CUmemPool_st{.gpu = properties->location.id};
  return cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  const std::scoped_lock lock(Schedule::Get().mutex());
  Synchronise(pool->gpu);
  for (const auto& [at, allocation] : Allocations()) {
    if (allocation.pool == pool) Die("a pool is destroyed that has memory in use");
  }
  delete pool;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  EMULATED_CALL(cudaErrorInvalidValue);
  return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  EMULATED_CALL(cudaErrorInvalidValue);
  if (attribute != cudaMemPoolAttrReservedMemHigh) return Answer(cudaErrorInvalidValue);
  *static_cast<std::uint64_t*>(value) = pool->most;
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) {
  EMULATED_CALL(cudaErrorInvalidValue);
  return cudaSuccess;
}
cudaError_t cudaMallocFromPoolAsync(void** at, std::size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  EMULATED_CALL(cudaErrorMemoryAllocation);
  if (Of(stream).capture != nullptr) return Answer(cudaErrorStreamCaptureUnsupported);
  *at = Take(bytes, pool);
  if (*at == nullptr) return Answer(cudaErrorMemoryAllocation);
  pool->held += Allocations()[*at].bytes;
  pool->most = std::max(pool->most, pool->held);
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* at, cudaStream_t stream) {
  const std::scoped_lock lock(Schedule::Get().mutex());
  if (Of(stream).capture != nullptr) return Answer(cudaErrorStreamCaptureUnsupported);
  Enqueue(Of(stream),
          Lasting(
              [at] {
                const Allocation& allocation = Allocations().at(at);
                allocation.pool->held -= allocation.bytes;
                Give(at);
              },
              0),
          cudaGraphNodeTypeEmpty);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  EMULATED_CALL(cudaErrorInvalidValue);
  CUstream_st& stream = Of(handle);
  if (stream.capture != nullptr) return Answer(cudaErrorIllegalState);
  stream.capture = new CUgraph_st;
  stream.captured.clear();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* result) {
  const std::scoped_lock lock(Schedule::Get().mutex());
  *result = nullptr;
  cudaGraph_t graph = Of(handle).capture;
  if (graph == nullptr) return Answer(cudaErrorIllegalState);
  // This stream must follow, directly or indirectly, everything that was captured.
  std::set<std::size_t> joined;
  std::vector<std::size_t> open = handle->captured;
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    if (!joined.insert(node).second) continue;
    open.insert(open.end(), graph->nodes[node]->before.begin(), graph->nodes[node]->before.end());
  }
  for (cudaStream_t stream : Streams()) {
    if (stream->capture != graph) continue;
    stream->capture = nullptr;
    stream->captured.clear();
  }
  for (cudaEvent_t event : Events()) {
    if (event->capture == graph) event->capture = nullptr;
  }
  const bool failed = emulated::CallFails("cudaStreamEndCapture");
  if (failed || joined.size() != graph->nodes.size()) {
    delete graph;
    return Answer(cudaErrorIllegalState);
  }
  *result = graph;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* instance, cudaGraph_t graph, unsigned long long) {
  EMULATED_CALL(cudaErrorMemoryAllocation);
  *instance = new CUgraphExec_st;
  for (const auto& node : graph->nodes) {
    (*instance)->index[node.get()] = (*instance)->nodes.size();
    (*instance)->nodes.push_back(*node);
  }
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t instance, cudaStream_t handle) {
  EMULATED_CALL(cudaErrorLaunchFailure);
  CUstream_st& stream = Of(handle);
  const OperationRef begin = Append(stream, {});
  std::vector<OperationRef> operations;
  for (const CUgraphNode_st& node : instance->nodes) {
    std::vector<OperationRef> before = {begin, instance->last};
    for (const std::size_t one : node.before) before.push_back(operations[one]);
    operations.push_back(MakeOperation(node.gpu, node.task));
    if (node.event != nullptr) Of(node.event).record = operations.back();
    Schedule::Get().Submit(operations.back(), before);
  }
  stream.awaited.insert(stream.awaited.end(), operations.begin(), operations.end());
  instance->last = Append(stream, {});
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t instance) { return delete instance, cudaSuccess; }
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  EMULATED_CALL(cudaErrorInvalidValue);
  if (nodes == nullptr) return *count = graph->nodes.size(), cudaSuccess;
  for (std::size_t i = 0; i < *count; ++i) nodes[i] = graph->nodes[i].get();
  return cudaSuccess;
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  EMULATED_CALL(cudaErrorInvalidValue);
  *type = node->type;
  return cudaSuccess;
}
cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  EMULATED_CALL(cudaErrorInvalidValue);
  *event = node->event;
  return cudaSuccess;
}
cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t instance, cudaGraphNode_t node,
                                                 cudaEvent_t event) {
  EMULATED_CALL(cudaErrorInvalidValue);
  instance->nodes[instance->index.at(node)].event = &Of(event);
  return cudaSuccess;
}
