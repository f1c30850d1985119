// One of two programs that share a device: it does what a line of its input says, and answers with a line.
//
//   program MARK          MARK: a file of four bytes that says what is being done, for whoever kills this program
//   program MARK PHASE    plays PHASE from the start, without being told
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace {

constexpr size_t MIB = size_t{1} << 20;
// What is checked at both ends of a piece.
constexpr unsigned WORDS = 1 << 14, BLOCK = 128;

volatile int *mark;

struct Piece {
    unsigned *at;
    size_t bytes;
};
std::vector<Piece> held;

void must(cudaError_t code, const char *what) {
    if (code != cudaSuccess) {
        std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
        std::exit(3);
    }
}

// Words that depend on all the threads of a block, by way of a barrier.
__global__ void weave(unsigned *out, unsigned salt) {
    __shared__ unsigned row[BLOCK];
    const unsigned at = blockIdx.x * BLOCK + threadIdx.x;
    row[threadIdx.x] = at * 2654435761u ^ salt;
    __syncthreads();
    out[at] = row[BLOCK - 1 - threadIdx.x] + row[(threadIdx.x + 1) % BLOCK];
}

unsigned woven(unsigned at, unsigned salt) {
    const unsigned first = at / BLOCK * BLOCK, lane = at % BLOCK;
    auto word = [&](unsigned i) { return (first + i) * 2654435761u ^ salt; };
    return word(BLOCK - 1 - lane) + word((lane + 1) % BLOCK);
}

cudaError_t take(size_t bytes) {
    unsigned *at = nullptr;
    const cudaError_t code = cudaMalloc(&at, bytes);
    if (code == cudaSuccess) held.push_back({at, bytes});
    else cudaGetLastError();
    return code;
}

void keep(size_t count) {
    for (; held.size() > count; held.pop_back()) must(cudaFree(held.back().at), "cudaFree");
}

// Writes and checks both ends of every piece. The kernels of all come before the first check, so that pieces that lay
// over each other, or over the neighbour's, would be found.
bool right(unsigned salt) {
    std::vector<unsigned *> ends;
    for (const Piece &piece : held) {
        ends.push_back(piece.at);
        ends.push_back(piece.at + piece.bytes / sizeof(unsigned) - WORDS);
    }
    for (size_t i = 0; i < ends.size(); i++) weave<<<WORDS / BLOCK, BLOCK>>>(ends[i], salt + i);
    must(cudaGetLastError(), "launch");
    std::vector<unsigned> found(WORDS);
    for (size_t i = 0; i < ends.size(); i++) {
        must(cudaMemcpy(found.data(), ends[i], WORDS * sizeof(unsigned), cudaMemcpyDeviceToHost), "cudaMemcpy");
        for (unsigned at = 0; at < WORDS; at++)
            if (found[at] != woven(at, salt + i)) return false;
    }
    return true;
}

// What NVML says: bytes in use, and each process with a context.
struct Memory {
    unsigned long long total, free, used;
};
struct Process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

void nvml() {
    static void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    auto call = [](const char *name, auto... arguments) {
        auto *function = reinterpret_cast<int (*)(decltype(arguments)...)>(dlsym(library, name));
        const int code = function ? function(arguments...) : -1;
        if (code != 0) {
            std::fprintf(stderr, "%s: %d\n", name, code);
            std::exit(3);
        }
    };
    void *device = nullptr;
    Memory memory{};
    Process processes[64]{};
    unsigned count = 64;
    call("nvmlInit_v2");
    call("nvmlDeviceGetHandleByIndex_v2", 0u, &device);
    call("nvmlDeviceGetMemoryInfo", device, &memory);
    call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, processes);
    std::printf("%llu %llu", memory.total, memory.used);
    for (unsigned i = 0; i < count; i++) std::printf(" %u:%llu", processes[i].pid, processes[i].bytes);
    std::puts("");
}

// The phases that this program may be killed in. Phase 0 is before `main`.
const char *const PHASES[] = {"start", "context", "allocation", "release", "copy in", "copy out", "kernel", "set",
                              "stream", "managed", "pool", "reset"};
constexpr int COUNT = sizeof PHASES / sizeof *PHASES;

void play(int phase) {
    static std::vector<char> host(4 * MIB);
    static std::vector<unsigned *> pieces;
    const size_t bytes = host.size();
    auto piece = [&]() -> unsigned * {
        if (pieces.empty()) {
            pieces.resize(1);
            must(cudaMalloc(&pieces[0], bytes), "cudaMalloc");
        }
        return pieces[0];
    };
    auto give = [&] {
        for (unsigned *at : pieces) must(cudaFree(at), "cudaFree");
        pieces.clear();
    };
    // What a phase needs is there before it is marked.
    if (phase >= 4 && phase <= 8) piece();
    else give();
    if (phase == 3)
        for (int i = 0; i < 4; i++) must(cudaMalloc(&pieces.emplace_back(), 2 * MIB), "cudaMalloc");
    *mark = phase;
    switch (phase) {
    case 1: must(cudaFree(nullptr), "cudaFree"); break;
    case 2:
        for (int i = 0; i < 4; i++) must(cudaMalloc(&pieces.emplace_back(), 2 * MIB), "cudaMalloc");
        break;
    case 3: give(); break;
    case 4: must(cudaMemcpy(piece(), host.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy"); break;
    case 5: must(cudaMemcpy(host.data(), piece(), bytes, cudaMemcpyDeviceToHost), "cudaMemcpy"); break;
    case 6:
        weave<<<8 * WORDS / BLOCK, BLOCK>>>(piece(), 1);
        must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        break;
    case 7: must(cudaMemset(piece(), 1, bytes), "cudaMemset"); break;
    case 8: {
        cudaStream_t stream;
        must(cudaStreamCreate(&stream), "cudaStreamCreate");
        for (int i = 0; i < 4; i++) {
            must(cudaMemcpyAsync(piece(), host.data(), bytes / 4, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
            weave<<<WORDS / BLOCK, BLOCK, 0, stream>>>(piece(), i);
        }
        must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        must(cudaStreamDestroy(stream), "cudaStreamDestroy");
        break;
    }
    case 9: {
        unsigned *at;
        must(cudaMallocManaged(&at, bytes), "cudaMallocManaged");
        at[0] = 1;
        weave<<<WORDS / BLOCK, BLOCK>>>(at, 1);
        must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        must(cudaFree(at), "cudaFree");
        break;
    }
    case 10: {
        void *at;
        must(cudaMallocAsync(&at, bytes, 0), "cudaMallocAsync");
        must(cudaFreeAsync(at, 0), "cudaFreeAsync");
        must(cudaStreamSynchronize(0), "cudaStreamSynchronize");
        break;
    }
    case 11:
        held.clear();
        must(cudaDeviceReset(), "cudaDeviceReset");
        must(cudaFree(nullptr), "cudaFree");
        break;
    }
}

// Plays one phase, or all of them in turn, until it is killed.
[[noreturn]] void play(const std::string &name) {
    for (int round = 0;; round++) {
        for (int phase = 1; phase < COUNT; phase++)
            if (name == "all" || name == PHASES[phase]) play(phase);
        if (round == 0 && name != "all") {
            bool known = false;
            for (const char *phase : PHASES) known |= name == phase;
            if (!known) std::exit(4);
        }
    }
}

} // namespace

int main(int count, char **arguments) {
    const int file = count > 1 ? open(arguments[1], O_RDWR) : -1;
    void *shared = mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED) return 4;
    mark = static_cast<volatile int *>(shared);
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (count > 2) play(std::string(arguments[2]));
    char line[80];
    for (unsigned salt = 1; std::fgets(line, sizeof line, stdin); salt += 1000) {
        char rest[64] = "";
        long number = 0;
        if (std::sscanf(line, "take %ld", &number) == 1) {
            std::printf("%d\n", take(number));
        } else if (std::sscanf(line, "grab %ld", &number) == 1) {
            const size_t before = held.size();
            cudaError_t code;
            while ((code = take(number)) == cudaSuccess) {}
            std::printf("%d %zu\n", code, held.size() - before);
        } else if (std::sscanf(line, "keep %ld", &number) == 1) {
            keep(number);
            std::puts("kept");
        } else if (std::sscanf(line, "work %ld", &number) == 1) {
            bool all = true;
            for (; number > 0; number--) all &= right(salt += 100);
            std::puts(all ? "right" : "wrong");
        } else if (std::strcmp(line, "nvml\n") == 0) {
            nvml();
        } else if (std::sscanf(line, "play %63[a-z ]", rest) == 1) {
            play(std::string(rest));
        } else {
            return 4;
        }
    }
    return 0;
}
