// Takes a compiler a lot of memory: a large table that is known when it is compiled.
#include <array>
#include <map>
#include <regex>
#include <string>
#include <unordered_map>
template <int N> struct Kernel { std::map<std::array<int, N>, std::string> table; std::regex pattern{"a"}; };
template <int N> struct All : All<N - 1> { Kernel<N> kernel; All() { kernel.table[{}] = "x"; } };
template <> struct All<0> {};
All<400> all;
