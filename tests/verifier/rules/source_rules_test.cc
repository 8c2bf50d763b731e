// Rules over text and assembly, both ways: what they must find, and what looks like it and is honest.

#include "verifier/rules/source_rules.h"

#include <catch2/catch_test_macros.hpp>

namespace hone::verifier {
namespace {

std::string Found(absl::string_view text, const RulePolicy& policy = {}) {
  std::string names;
  for (const RuleHit& hit : CheckSource(CudaSource(text), Assembly::kNowhere, policy)) names += (names.empty() ? "" : " ") + hit.rule;
  return names;
}

std::string InAssembly(absl::string_view text) {
  const std::vector<RuleHit> hits = CheckAssembly(text, "/usr/share/hone/cpu/include/");
  return hits.empty() ? "" : hits.front().rule;
}

struct Case {
  const char* rule;   // "": honest
  const char* text;
};

TEST_CASE("Each rule over text finds what it is for and leaves honest neighbours alone", "[verifier][rules]") {
  const Case cases[] = {
      {"inline_assembly", "void f() { asm volatile(\"nop\"); }"},
      {"inline_assembly", "#define A __asm__\n"},
      {"", "// asm volatile\n/* __asm__ */ const char* s = \"asm\"; int asmx;"},
      {"reserved_name", "extern \"C\" void hone_cpu_reset();"},
      {"reserved_name", "struct HoneCall;"},
      {"", "void* p = hone_workspace(8);\n#ifdef HONE_EMULATED\n#endif\nint honey;"},
      {"attribute", "__attribute__((constructor)) void f() {}"},
      {"attribute", "[[gnu::constructor]] void f() {}"},
      {"attribute", "__attribute__((section(\".init_array\"))) void* p;"},
      {"attribute", "__attribute__((optimize(\"Ofast\"))) void f() {}"},
      {"attribute", "[[gnu::target(\"avx512f\")]] void f() {}"},
      {"", "__attribute__((always_inline)) void f() {} int section, target, optimize, copy; void g() { copy(target); }"},
      {"pragma_operator", "_Pragma(\"GCC optimize(3)\")"},
      {"pragma_operator", "#define P(x) _Pragma(#x)\nP(GCC target(\"avx2\"))"},
      {"pragma_operator", "_Pragma(\"weak cudaMalloc\")"},
      {"", "#define UNROLL _Pragma(\"unroll\")\n#define P(x) _Pragma(#x)\nP(unroll 4)"},
      {"hidden_token", "void f() { as\\\nm(\"nop\"); }"},
      {"hidden_token", "%:include \"x.h\""},
      {"hidden_token", "void f() { \\u0061sm(); }"},
      {"", "#define TWO(a) a; \\\n  a\nint x = 7 % 3; const char* s = \"\\u00e9 \\\\\"; char c = '\\n';"},
      {"line_marker", "#line 7 \"hone/kernel.h\"\n"},
      {"line_marker", "# 7 \"hone/kernel.h\" 3\n"},
      {"include_path", "#include \"/etc/passwd\"\n"},
      {"include_path", "#include <../../etc/passwd>\n"},
      {"include_path", "#define F \"/proc/self/environ\"\n#include F\n"},
      {"include_path", "#include_next <math.h>\n"},
      {"include_path", "#\\\ninclude \"/etc/passwd\"\n"},
      {"include_path", "#incl\\\nude \"/etc/passwd\"\n"},
      {"", "#include <cuda_runtime.h>\n#include \"cuda_fp16.h\"\n#include <cub/block/block_reduce.cuh>\n"},
      {"macro_of_the_language", "#define launch(...)\n"},
      {"macro_of_the_language", "#define return\n"},
      {"macro_of_the_language", "#undef __syncthreads\n"},
      {"macro_of_the_language", "#  define cudaPeekAtLastError() 0\n"},
      {"", "#define CUDA_CHECK(x) x\n#define cudaCheckErrors(m)\n#define BLOCK 256\n#undef BLOCK\n#define launch_bounds 3\n"},
      {"system_interface", "void f() { fork(); }"},
      {"system_interface", "void f() { std::thread t; }"},
      {"system_interface", "extern \"C\" int mprotect(void*, unsigned long, int);"},
      {"", "__device__ float clone(float x) { return x; } void f() { clone(1); }"},
      {"", "struct S { int fork; }; void f(S s, T t) { s.fork = 1; t.system(); int thread = 0; }"},
      {"stack_walk", "void* f() { return __builtin_frame_address(1); }"},
      {"runtime_control", "void f() { cudaIpcGetMemHandle(0, 0); }"},
      {"runtime_control", "void f() { cudaLaunchHostFunc(0, 0, 0); }"},
      {"runtime_control", "void f() { cudaGetDriverEntryPoint(\"cuMemAlloc\", &p, 0); }"},
      {"", "void f() { cudaGetDriverEntryPoint(\"cuTensorMapEncodeTiled\", &p, 0); int cur = 0, custom = 0; }"},
      {"library_kernels", "void f() { cublasSgemm(); }"},
      {"library_header", "#include <cublas_v2.h>\n"},
      {"library_header", "#include \"cutlass/gemm.h\"\n"},
      {"side_stream", "void f() { cudaStreamCreate(&s); }"},
      {"graph_launch", "void f() { cudaGraphLaunch(g, s); }"},
  };
  for (const Case& c : cases) {
    INFO(c.text);
    CHECK(Found(c.text) == c.rule);
  }
}

TEST_CASE("Every rule over text can be switched off for a task", "[verifier][rules]") {
  CHECK(Found("void f() { asm(\"nop\"); }", RulePolicy({false, {"inline_assembly"}})).empty());
  CHECK(Found("void f() { cublasSgemm(); }", RulePolicy({true, {}})).empty());
}

TEST_CASE("Where device code may hold assembly, host code still may not", "[verifier][rules]") {
  const auto hits = [](absl::string_view text) { return CheckSource(CudaSource(text), Assembly::kInDeviceCode).size(); };
  CHECK(hits("__device__ void f() { asm volatile(\"nop;\"); }") == 0);
  CHECK(hits("__global__ void k() { asm(\"nop;\"); }") == 0);
  CHECK(hits("void f() { asm(\"nop\"); }") == 1);
  CHECK(hits("__host__ __device__ void f() { asm(\"nop\"); }") == 1);
  CHECK(hits("asm(\".incbin \\\"x\\\"\");") == 1);
  CHECK(hits("#define PREFETCH(p) asm volatile(\"prefetch.global.L2 [%0];\" :: \"l\"(p))\n") == 0);
}

TEST_CASE("Words in raw strings and after spliced comments are not code", "[verifier][rules]") {
  CHECK(Found("const char* s = R\"(asm fork() hone_x)\"; // comment \\\n asm volatile\nint x;").empty());
}

TEST_CASE("Assembly of the candidate's own is found however it was spelled", "[verifier][rules]") {
  CHECK(InAssembly("\tmovl %eax, %ebx\n#APP\n# 12 \"candidate.cu\" 1\n\tsyscall\n# 0 \"\" 2\n#NO_APP\n\tret\n") == "assembler_directive");
  CHECK(InAssembly("#APP\n\tsyscall\n#NO_APP\n") == "assembler_directive");
  CHECK(InAssembly("\t.section .rodata\n\t.incbin \"/etc/passwd\"\n") == "assembler_directive");
  CHECK(InAssembly("\tcall x; .include \"/etc/passwd\"\n") == "assembler_directive");
}

TEST_CASE("What the compiler itself and the emulation's headers write is no assembly of the candidate", "[verifier][rules]") {
  CHECK(InAssembly("#APP\n# 89 \"/usr/share/hone/cpu/include/hone/kernel.h\" 1\n\tpushq %rbp\n# 0 \"\" 2\n#NO_APP\n"
                   "\t.section\t.rodata.str1.1,\"aMS\",@progbits,1\n.LC0:\n\t.string\t\"a; .incbin \\\"x\\\"\"\n\t.align 16\n")
            .empty());
}

std::string InNvccAssembly(absl::string_view text) {
  std::string names;
  for (const RuleHit& hit : CheckNvccAssembly(text, {"/usr/local/cuda/"})) names += (names.empty() ? "" : " ") + hit.rule;
  return names;
}

// As g++ 12 writes it for nvcc 13.
constexpr char kRegistration[] =
    "\t.file\t\"unit.cudafe1.cpp\"\n\t.text\n#APP\n\t.section .nv_fatbin, \"a\"\n.align 8\nfatbinData:\n"
    ".quad 0x00100001ba55ed50,0x0000000000001a58\n.quad 0x0000000000000230, 0x0000000000000008\n.text\n\n#NO_APP\n\t.p2align 4\n"
    "\t.section .init_array\n\t.align 8\n\t.quad\t_ZL24__sti____cudaRegisterAllv\n\t.text\n";

TEST_CASE("Registering the device's code, tables that C++ fills and headers' assembly are no assembly of the candidate",
          "[verifier][rules]") {
  CHECK(InNvccAssembly(kRegistration).empty());
  CHECK(InNvccAssembly("\t.section\t.init_array\n\t.align 8\n\t.quad\t_GLOBAL__sub_I_tmpxft_6_unit.cudafe1.cpp\n").empty());
  CHECK(InNvccAssembly("#APP\n# 7 \"/usr/local/cuda/include/x.hpp\" 1\n\tpause\n# 0 \"\" 2\n#NO_APP\n").empty());
}

TEST_CASE("Assembly and initialisers of a candidate's host code are found in what nvcc hands on, however they were spelled",
          "[verifier][rules]") {
  const std::string own(kRegistration);
  CHECK(InNvccAssembly(own + "#APP\n# 12 \"candidate.cu\" 1\n\tsyscall\n# 0 \"\" 2\n#NO_APP\n") == "assembler_directive");
  CHECK(InNvccAssembly("#APP\n\t.section .nv_fatbin, \"a\"\n.quad 0x0\n.text\nsyscall\n#NO_APP\n") == "assembler_directive");
  CHECK(InNvccAssembly("#APP\n\t.section .text, \"ax\"\n.quad 0x050f\n#NO_APP\n") == "assembler_directive");
  CHECK(InNvccAssembly("#APP\n\t.section .nv_fatbin, \"a\"\n.quad main\n#NO_APP\n") == "assembler_directive");
  CHECK(InNvccAssembly(own + "\t.section\t.init_array,\"aw\"\n\t.align 8\n\t.quad\t_ZL5earlyv\n") == "initialiser");
  CHECK(InNvccAssembly("\t.section\t.fini_array,\"aw\"\n\t.quad\t_ZL4latev\n") == "initialiser");
  CHECK(InNvccAssembly("\t.section\t.init_array.00101,\"aw\"\n\t.quad\tf\n") == "initialiser");
}

}  // namespace
}  // namespace hone::verifier
