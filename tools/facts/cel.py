#!/usr/bin/env python3
"""Records what Kubernetes makes of generated CEL expressions of custom resources: cel.py --evaluator PROGRAM

PROGRAM is cel_reference.go beside this file, built inside of a checkout of Kubernetes. The expressions come from a
grammar with types and a seed; some have a wrong type or a broken text on purpose. --print only prints them. An answer
that changes from run to run, by the order of a map, is left out.
The result is api/tests/recorded/cel.json.gz: a line about all (how it was recorded, the seed, the schema and object
of `self`), then a case a line: the expression and its answer, whose form cel_reference.go documents.
api/tests/cel.rs compares with it.

cel.py --evaluator PROGRAM --server URL --token TOKEN compares a sample of the recorded answers with a kube-apiserver's:
errors about definitions, the errors and values of a hundred rules of one definition, which fail with a
messageExpression, and costs, by loops that may just run and those with one item more. With --sample 100, which takes
eight minutes, kube-apiserver 1.36.2 agreed in all: 100 errors about definitions, 100 errors, 100 values and 50 costs.
"""
import argparse
import gzip
import http.client
import json
import pathlib
import random
import re
import ssl
import subprocess
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURE = ROOT / "api/tests/recorded/cel.json.gz"
SEED = 37
COUNT = 10_000
RUNS = 12
# The most that an expression may cost.
LIMIT = 1_000_000

ITEM = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string", "maxLength": 5}, "v": {"type": "integer"}}}
KEYED = {"type": "array", "maxItems": 4, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": ITEM}
SCHEMA = {
    "type": "object",
    "properties": {
        "b": {"type": "boolean"},
        "i": {"type": "integer"},
        "neg": {"type": "integer"},
        "big": {"type": "integer", "format": "int64"},
        "d": {"type": "number"},
        "whole": {"type": "number"},
        "s": {"type": "string"},
        "t": {"type": "string", "maxLength": 20},
        "wide": {"type": "string", "maxLength": 7},
        "few": {"type": "string", "enum": ["red", "green"]},
        "n": {"type": "string", "nullable": True},
        "absent": {"type": "string", "maxLength": 3},
        "none": {"type": "integer"},
        "ios": {"x-kubernetes-int-or-string": True},
        "ios2": {"x-kubernetes-int-or-string": True, "maxLength": 9},
        "when": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "wait": {"type": "string", "format": "duration"},
        "raw": {"type": "string", "format": "byte"},
        "raw2": {"type": "string", "format": "byte", "maxLength": 12},
        "l": {"type": "array", "items": {"type": "integer"}},
        "short": {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
        "ls": {"type": "array", "maxItems": 9, "items": {"type": "string", "maxLength": 6}},
        "ld": {"type": "array", "maxItems": 9, "items": {"type": "number"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
        "set2": {"type": "array", "maxItems": 3, "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
        "keyed": KEYED,
        "keyed2": KEYED,
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "ms": {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "string", "maxLength": 4}},
        "o": {
            "type": "object",
            "properties": {
                "x": {"type": "integer"},
                "a-b.c/d": {"type": "string"},
                "if": {"type": "string", "maxLength": 8},
                "a__b": {"type": "integer"},
                "p": {"type": "object", "properties": {"q": {"type": "string"}}},
            },
        },
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"x": {"type": "integer"}}},
        "pod": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
    },
}
OBJECT = {
    "b": True,
    "i": 5,
    "neg": -3,
    "big": 9223372036854775807,
    "d": 10.5,
    "whole": 3.0,
    "s": "Rook takes 👑",
    "t": "abc",
    "wide": "é漢",
    "few": "red",
    "n": None,
    "ios": "25%",
    "ios2": 3,
    "when": "2021-02-03T04:05:06.7+01:00",
    "day": "2020-12-31",
    "wait": "1h30m",
    "raw": "aGk=",
    "raw2": "/wA=",
    "l": [1, 2, 3, 4, 5],
    "short": [7, 7],
    "ls": ["a", "bb", "ccc"],
    "ld": [0.5, 2],
    "set": [1, 2, 3],
    "set2": [3, 1, 4],
    "keyed": [{"k": "a", "v": 1}, {"k": "b", "v": 2}],
    "keyed2": [{"k": "b", "v": 2}, {"k": "c"}],
    "m": {"a": 1},
    "ms": {"key": "va"},
    "o": {"x": 1, "a-b.c/d": "special", "if": "reserved", "a__b": 2, "p": {"q": "r"}},
    "open": {"x": 1, "unknown": [1]},
    "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n", "labels": {}}, "spec": {}},
}

# For each type, what stands for it alone, and forms with parts: «T» is a part of type T, and in «T|x:A,y:B» it knows
# variables.
LEAVES = {
    "B": "true false self.b has(self.n) has(self.t) has(self.absent) has(self.o.p.q) has(self.o.none)",
    "I": "0 1 -1 2 -2 3 5 10 100 0x10 -0x1F 9223372036854775807 -9223372036854775808 self.i self.neg self.big self.none "
    "self.o.x self.o.a__underscores__b self.l[0] self.m['a'] self.keyed[1].v self.keyed2[1].v size(self.t)",
    "U": "0u 1u 2u 7u 0x1fu 18446744073709551615u",
    "D": "0.0 -0.0 0.5 1.0 -1.5 2.0 1e10 1e300 1.7976931348623157e308 5e-324 -1e-7 9223372036854775807.0 1e21 123456789.125 self.d self.whole "
    "self.ld[0] .5 1.",
    "S": "'' 'a' 'b' 'abc' 'ABC' 'a,b,,c' 'éß漢字👑' ' pad\\t' 'line\\nbreak' '12' '-7' '1.5' 'true' \"q\\\"uote\" r'raw\\d' "
    "'''tri'ple''' 'x\\u00e9\\x41\\101\\U0001F451' 'aXbXc' self.s self.t self.wide self.few self.n self.absent self.o.__if__ "
    "self.o.a__dash__b__dot__c__slash__d self.o.p.q self.ls[1] self.ms['key'] self.pod.metadata.name self.pod.kind",
    "Y": "b'' b'abc' b'\\xff\\x00' b'é' self.raw self.raw2 bytes('漢')",
    "T": "timestamp('2023-01-15T10:20:30Z') timestamp('2024-02-29T23:59:59.999999999+05:30') timestamp(0) timestamp(-1) "
    "timestamp('0001-01-01T00:00:00Z') timestamp('9999-12-31T23:59:59.999999999Z') timestamp('1969-12-31T23:59:59.5Z') "
    "timestamp('2021-07-04T12:00:00-07:00') self.when self.day",
    "R": "duration('0s') duration('1h30m') duration('-2.5s') duration('1ns') duration('72h3m0.5s') duration('1us') duration('1500ms') "
    "duration('2562047h47m16.854775807s') self.wait",
    "LI": "[] [1] [3,1,2] [1,1,2] [-1,0,1] self.l self.short self.set self.set2",
    "LS": "[] ['a'] ['b','a','c'] ['a','a'] ['','é'] self.ls",
    "LD": "[] [0.5] [2.0,1.0] self.ld",
    "LU": "[1u] [3u,2u]",
    "LK": "self.keyed self.keyed2",
    "M": "{} {'a':1} {'b':2} {'x':-1} self.m",
    "MS": "{'k':'v'} {'':''} self.ms",
    "MI": "{1:'one'} {1u:'u'} {2:'two'}",
    "K": "self.keyed[0] self.keyed2[1]",
    "OI": "optional.none() optional.of(1) self.?i self.?none self.?o.x self.m[?'a'] self.m[?'zz'] self.l[?1] self.l[?9] self.?m['a']",
    "OS": "optional.of('a') self.?t self.?absent self.?ms.?key self.?n self.ls[?0] optional.ofNonZeroValue('')",
    "X": "dyn(1) dyn('a') dyn(1.0) dyn(1u) dyn([1]) dyn({'a':1}) dyn(null) dyn(true) self.ios self.ios2 null dyn(duration('1s'))",
    "Q": "quantity('1') quantity('1k') quantity('1.5Gi') quantity('-200m') quantity('0') quantity('1e3') quantity('12345678901234567890') "
    "quantity('0.1') quantity('1n') quantity('100Ei')",
    "IP": "ip('127.0.0.1') ip('0.0.0.0') ip('192.168.1.5') ip('::1') ip('2001:db8::abcd') ip('fe80::1') ip('224.0.0.1') ip('ff02::1') "
    "ip('169.254.3.4') ip('255.255.255.255') ip('::')",
    "CI": "cidr('192.168.0.0/16') cidr('10.0.0.1/8') cidr('::/0') cidr('2001:db8::/32') cidr('0.0.0.0/0') cidr('192.168.1.5/32')",
    "UR": "url('https://user:pw@example.com:80/p/a%20th?q=1&q=2&e=#frag') url('http://[::1]:8080/x') url('/just/path') url('http://h') "
    "url('https://h/?a=b%26c')",
    "V": "semver('1.2.3') semver('0.0.1-alpha.1+build') semver('10.20.30') semver('v1.2', true) semver('1.2.3-rc.1') semver('01.1.0', true)",
    "F": "format.dns1123Label() format.dns1123Subdomain() format.dns1035Label() format.qualifiedName() format.dns1123LabelPrefix() "
    "format.dns1123SubdomainPrefix() format.dns1035LabelPrefix() format.labelValue() format.uri() format.uuid() format.byte() format.date() "
    "format.datetime() format.named('uuid').value() format.named('nope').value()",
    "TY": "int uint double string bool bytes list map type null_type optional_type google.protobuf.Timestamp google.protobuf.Duration dyn",
    # Texts for functions that parse.
    "SQ": "'1' '1Ki' '1.5G' '-1m' '1 k' '' 'abc' '1e' '1E' '1e-3' '+5' '.5' '5.' '1KiB' '0x1' '1.0000000001' '9223372036854775808' '1e20' "
    "'99999999999999999999999999E' '1u' '5n' '1e1000'",
    "SIP": "'1.2.3.4' '01.2.3.4' '1.2.3' '256.1.1.1' '::1' '::ffff:1.2.3.4' 'fe80::1%eth0' '2001:DB8::1' '2001:db8:0::1' '' 'x' ':::'",
    "SCI": "'10.0.0.0/8' '10.0.0.1/33' '10.0.0.1' '::/129' '::1/128' '::ffff:1.2.3.4/96' 'fe80::%1/64' '1.2.3.4/08' '' '1.2.3.4/-1' '2001:db8::/48'",
    "SUR": "'https://a/b' 'http://[::1' 'a b' '' '://x' '/p' 'p' 'http://h:port/' 'mailto:x@y' 'http://h/%zz' 'http://a b/' 'HTTP://H' '//h/p' "
    "'http://h:80' 'https://u@h?x=1;y=2&z' 'http://h/\\x7f'",
    "SV": "'1.2.3' '1.2' 'v1.2.3' '1.2.3-' '1.2.3-01' '1.2.3+' '' '1.2.3.4' '01.2.3' '1.2.3-a.b' 'a.b.c' '99999999999999999999.1.1' '-1.2.3' "
    "'1.2.3-é' '1..3' '1.2.3-a..b' '1.2.3+a+b'",
    "SF": "'abc' '-a' 'a-' 'A' 'a.b' '' 'a_b' '1a' 'a/b' 'x/y/z' 'http://x' '123e4567-e89b-12d3-a456-426614174000' 'aGk=' 'aGk' '2020-01-01' "
    "'2020-13-01' '2020-01-01T00:00:00Z' 'é' '%%' 'a--b' 'a.-b' '.a'",
    "SRX": "'a' '^a' 'b+' '[a-c]+' '(a|b)c' '.*' '' '\\\\d+' 'a{2}' '(?i)ABC' '^$' '\\\\bR' '[^a]' '(' '[' 'a**' '\\\\p{L}+' 'é' '(?P<n>a)' "
    "'a{1001}' '\\\\' 'x{2,1}' '(?<n>a)' '\\\\z' '[[:alpha:]]+' '(?=a)'",
    "ST": "'2020-01-02T03:04:05Z' '2020-01-02' '2020-02-30T00:00:00Z' '2020-01-02T03:04:05' '2020-01-02T03:04:05.123456789123Z' '' "
    "'2020-01-02t03:04:05z' '2020-01-02T24:00:00Z' '0000-01-01T00:00:00Z' '10000-01-01T00:00:00Z' '2020-01-02T03:04:05+24:00' "
    "'2020-1-2T03:04:05Z' '0001-01-01T00:00:00+01:00' '2020-01-02T03:04:60Z' '2020-01-02T03:04:05,5Z' '9999-12-31T23:59:59-01:00'",
    "SR": "'1s' '1h1m1s' '' '1' 's' '-1s' '+1s' '1.5h' '.5s' '1d' '1s1h' '1e3s' '9223372036854775807ns' '9223372036854775808ns' '0' '1µs' '1μs' "
    "'-9223372036854775808ns' '300y' '1 s' '- 1s' '0.0000000001s' '2562047h48m'",
    "SN": "'1' '-1' '+1' '0x10' ' 1' '1 ' '1_000' '' '9223372036854775807' '9223372036854775808' '18446744073709551615' '1.0' '1e3' 'NaN' 'Inf' "
    "'-Infinity' '1e400' '007' '-0' 'true' 'True' 'TRUE' 't' '1.' '.1' '0x1p-2' 'infinity' '+Inf' 'nan'",
    "SZ": "'UTC' '' 'America/New_York' 'Europe/Berlin' 'Asia/Kolkata' '+05:30' '-08:00' '00:00' '+5:3' 'Nowhere/City' 'america/new_york' '-00:30' "
    "'+24:00' 'EST' 'EST5EDT' 'Etc/GMT+5' '../etc' '/etc' 'Australia/Lord_Howe' '99:99' ':30' '5:' '+-5:00' 'x:00' 'GMT' 'Asia/Kathmandu' "
    "'Africa/Monrovia' '-05:-30' '1:2:3' 'Z' 'US/Central' 'Pacific/Apia'",
    "SFMT": "'%s' '%d' '%f' '%.2f' '%e' '%.3e' '%b' '%x' '%X' '%o' '%%' '%' '%q' '%5d' '%.f' '%s %s' '' 'a%sb%dc' '%.1000f' '%-s' '%.99999999999f' "
    "'é%s' '%v'",
    "SA": "'a' '/' 'b' ',' '' 'X' 'é' '👑' 'c' 'zz' 'Rook'",
    # Ranges are made before anything limits them, so they are short.
    "IR": "0 1 2 -1 3 10 40",
    "IX": "0 1 2 -1 3 5 100 9223372036854775807 -9223372036854775808",
}
FORMS = {
    "B": """«B» && «B»;«B» || «B»;!«B»;«B» ? «B» : «B»;«I» < «I»;«I» <= «U»;«D» > «I»;«U» >= «D»;«S» < «S»;«Y» < «Y»;«T» < «T»;«R» >= «R»
;«B» < «B»;«I» == «I»;«I» != «I»;«D» == «D»;«S» == «S»;«S» != «S»;«LI» == «LI»;«LS» != «LS»;«M» == «M»;«MS» == «MS»;«X» == «X»;«X» != «X»
;«T» == «T»;«R» == «R»;«Y» == «Y»;«OI» == «OI»;«LK» == «LK»;«Q» == «Q»;«IP» == «IP»;«CI» == «CI»;«UR» == «UR»;«V» == «V»;«TY» == «TY»
;dyn(«I») == dyn(«D»);dyn(«U») == «I»;«I» in «LI»;«S» in «LS»;«D» in «LD»;«S» in «M»;«S» in «MS»;«I» in «MI»;«X» in [«X», «X»];«X» in {'a': 1}
;dyn(«D») in dyn(«LI»);«U» in dyn(«MI»);«S».contains(«SA»);«S».startsWith(«SA»);«S».endsWith(«SA»);«S».matches(«SRX»);matches(«S», «SRX»)
;«S».matches(«S»);«LI».all(x, «B|x:I»);«LI».exists(x, «B|x:I»);«LI».exists_one(x, «B|x:I»);«LI».existsOne(i, x, «B|i:I,x:I»)
;«LS».all(x, «B|x:S»);«LS».exists(e, «B|e:S»);«M».all(k, «B|k:S»);«M».exists(k, «B|k:S»);«M».all(k, v, «B|k:S,v:I»);«M».exists(k, v, «B|k:S,v:I»)
;«LS».all(i, v, «B|i:I,v:S»);«LI».exists(i, v, «B|i:I,v:I»);«LK».all(e, «B|e:K»);«LK».exists(e, e.k == «S»);«LK».exists_one(e, has(e.v))
;has(«K».v);has(self.m.a);has({'a': «I»}.a);has({'a': «I»}.b);has(self.pod.metadata);has(self.open.x);bool(«SN»);bool(«B»);«LI».isSorted();«LS».isSorted()
;«LD».isSorted();sets.contains(«LI», «LI»);sets.equivalent(«LI», «LI»);sets.intersects(«LS», «LS»);sets.contains(«LD», [«D»]);«OI».hasValue()
;«OS».hasValue();isURL(«SUR»);isIP(«SIP»);isCIDR(«SCI»);ip.isCanonical(«SIP»);isQuantity(«SQ»);isSemver(«SV»);isSemver(«SV», true)
;isSemver(«SV», «B»);«IP».isUnspecified();«IP».isLoopback();«IP».isLinkLocalMulticast();«IP».isLinkLocalUnicast();«IP».isGlobalUnicast()
;«CI».containsIP(«IP»);«CI».containsIP(«SIP»);«CI».containsCIDR(«CI»);«CI».containsCIDR(«SCI»);«Q».isInteger();«Q».isLessThan(«Q»)
;«Q».isGreaterThan(«Q»);«V».isLessThan(«V»);«V».isGreaterThan(«V»);«F».validate(«SF»).hasValue();format.named(«SF»).hasValue()
;type(«X») == «TY»;type(«S») == string;«X» == null;self.n == null;optional.of(«B») == optional.of(true);(«B»);[«B»].exists(z, z);«X» && «B»;«B» || «X»
;«X» > «I»;«X».startsWith('a');«LI»[«IX»] > 0;self.ios == «I»;self.ios == «S»;«I» < «I» && «S» < «S» || «B»;size(«S») > «I»;«OI».optMap(v, v > 0).orValue(«B»)
;«LI».all(x, «LI».exists(y, x == y));«I» / 0 == 1 || true;true || «I» / 0 == 1;«B» ? true : 1 / 0 == 1;«S».find(«SRX») != '';self.day == «T»
;self.raw == «Y»;optional.none() == «OI»;«X» <= «X»;cel.bind(x, «I», x > 0);self.set == self.set2 + «LI»;«R».getSeconds() < «I»;self == self
;self.o == self.o;self.keyed + self.keyed2 == «LK»;«LS».exists(s, s.matches(«SRX»));!!«B»;!(!«B»)""",
    "I": """«I» + «I»;«I» - «I»;«I» * «I»;«I» / «I»;«I» % «I»;-«I»;-(-«I»);«B» ? «I» : «I»;size(«S»);«S».size();size(«Y»);«LI».size();size(«M»);«LS».size()
;«LI»[«IX»];«M»[«S»];«M».a;self.m[«S»];«LK»[«IX»].v;«K».v;int(«D»);int(«U»);int(«SN»);int(«T»);int(«R»);int(«I»);«LI».sum();«LI».min();«LI».max()
;«LI».indexOf(«I»);«LI».lastIndexOf(«I»);«LS».indexOf(«S»);«S».indexOf(«SA»);«S».indexOf(«SA», «IX»);«S».lastIndexOf(«SA»);«S».lastIndexOf(«SA», «IX»)
;«OI».orValue(«I»);«OI».value();«OS».optMap(s, size(s)).orValue(-1);«T».getFullYear();«T».getMonth();«T».getDate();«T».getDayOfMonth();«T».getDayOfWeek()
;«T».getDayOfYear();«T».getHours();«T».getMinutes();«T».getSeconds();«T».getMilliseconds();«T».getFullYear(«SZ»);«T».getMonth(«SZ»);«T».getDate(«SZ»)
;«T».getDayOfMonth(«SZ»);«T».getDayOfWeek(«SZ»);«T».getDayOfYear(«SZ»);«T».getHours(«SZ»);«T».getMinutes(«SZ»);«T».getSeconds(«SZ»)
;«T».getMilliseconds(«SZ»);«T».getHours('America/New_York');«T».getHours(«S»);«R».getHours();«R».getMinutes();«R».getSeconds();«R».getMilliseconds()
;«Q».asInteger();«Q».sign();«Q».compareTo(«Q»);«V».major();«V».minor();«V».patch();«V».compareTo(«V»);«IP».family();«CI».prefixLength();«CI».ip().family()
;«LI».map(x, «I|x:I»).sum();«LI».filter(x, «B|x:I»).size();«LI».first().value();«LI».last().orValue(«I»);[«I», «I»].max();[«I»][0];{'a': «I»}.a;{«S»: «I»}[«S»]
;{1: «I»}[dyn(«D»)];{1u: «I»}[«I»];int(«D» + 0.5);dyn(«S»).size();dyn(«LI»)[«D»];«UR».getQuery().size();cel.bind(n, «I», n + n);int(self.when);«LI»[dyn(«U»)]
;self.l[self.i - 1];size(self.raw);lists.range(«IR»).size();«S».split(«SA»).size();int(string(«I»));self.keyed.map(e, e.v).sum();int(«X»);size(«X»)""",
    "U": "«U» + «U»;«U» - «U»;«U» * «U»;«U» / «U»;«U» % «U»;uint(«I»);uint(«D»);uint(«SN»);uint(«U»);«LU».sum();«LU».max();«LU»[0];«B» ? «U» : «U»;uint(«X»)",
    "D": "«D» + «D»;«D» - «D»;«D» * «D»;«D» / «D»;-«D»;double(«I»);double(«U»);double(«SN»);double(«D»);«LD».sum();«LD».min();«LD».max();«LD»[«IX»]"
    ";«Q».asApproximateFloat();«B» ? «D» : «D»;double(«X»);«D» / 0.0;0.0 / «D»",
    "S": """«S» + «S»;«B» ? «S» : «S»;string(«I»);string(«U»);string(«D»);string(«B»);string(«Y»);string(«T»);string(«R»);string(«S»);string(«IP»);string(«CI»)
;string(«UR»);«S».charAt(«IX»);«S».lowerAscii();«S».upperAscii();«S».trim();«S».replace(«SA», «SA»);«S».replace(«SA», «SA», «IX»);«S».substring(«IX»)
;«S».substring(«IX», «IX»);«LS».join();«LS».join(«SA»);«LS»[«IX»];«S».split(«SA»)[0];strings.quote(«S»);«SFMT».format([«I»]);«SFMT».format([«S»])
;«SFMT».format([«D»]);«SFMT».format([«X», «X»]);«SFMT».format([]);'%s'.format([«LI»]);'%s'.format([«M»]);'%s'.format([«T»]);'%s'.format([«R»])
;'%s'.format([«LS»]);'%s'.format([«LD»]);'%s'.format([«Y»]);'%s'.format([«OI»]);'%s'.format([«TY»]);'%s'.format([«Q»]);'%s'.format([«LK»]);'%s'.format([self.o.p])
;'%d'.format([«I»]);'%d'.format([«U»]);'%d'.format([«D»]);'%x'.format([«I»]);'%x'.format([«S»]);'%X'.format([«Y»]);'%o'.format([«I»]);'%b'.format([«B»])
;'%b'.format([«I»]);'%e'.format([«D»]);'%.3f'.format([«D»]);'%f'.format([«I»]);'%.0f'.format([«D»]);'%s %d'.format([«S», «I»]);'%s'.format([«MI»])
;'%s'.format([null]);'%s'.format([«X»]);«S».find(«SRX»);«S».findAll(«SRX»).join('|');«S».findAll(«SRX», «IX»).join('|');«UR».getScheme();«UR».getHost()
;«UR».getHostname();«UR».getPort();«UR».getEscapedPath();url(«SUR»).getHost();url(«SUR»).getHostname();url(«SUR»).getEscapedPath();string(url(«SUR»))
;string(ip(«SIP»));string(cidr(«SCI»).masked());string(«CI».ip());«MS»[«S»];«MS».k;«MI»[«I»];«OS».orValue(«S»);«OS».value();«K».k;«LK»[«IX»].k
;jsonpatch.escapeKey(«S»);«F».validate(«SF»).orValue(['ok']).join(';');«LS».map(x, «S|x:S»).join(',');«M».map(k, «S|k:S»).join(',');string(type(«X») == int)
;string(duration(«SR»));string(timestamp(«ST»));string(dyn(«X»));{'a': «S»}['a'];«LS».max();«LS».min();«X» + «S»;«S» + string(«I»);self.ios;string(self.raw)
;«OI».optMap(v, string(v)).orValue('none');self.?absent.orValue(«S»);«LS».reverse().join('');'abc'.split('', «IX»).join('|');«S».split(«SA», «IX»).join('|')""",
    "Y": "bytes(«S»);«Y» + «Y»;«B» ? «Y» : «Y»;bytes(«Y»);[«Y»].max()",
    "T": "«T» + «R»;«R» + «T»;«T» - «R»;timestamp(«ST»);timestamp(«I»);«B» ? «T» : «T»;[«T», «T»].max();[«T»][0];timestamp(«T»);timestamp('2020-01-02T03:04:05Z')",
    "R": "«R» + «R»;«R» - «R»;«T» - «T»;duration(«SR»);duration(«I»);-«R»;«B» ? «R» : «R»;[«R», «R»].sum();[«R», «R»].min();duration(«R»);duration(string(«R»))",
    "LI": """[«I», «I»];[«I»];«LI» + «LI»;«LI».map(x, «I|x:I»);«LI».filter(x, «B|x:I»);«LI».map(x, «B|x:I», «I|x:I»);«B» ? «LI» : «LI»;«LI».sort();«LI».reverse()
;«LI».slice(«IX», «IX»);«LI».distinct();«LI».sortBy(x, «I|x:I»);«LI».sortBy(x, «S|x:I»);lists.range(«IR»);[«LI», «LI»].flatten();[?«OI», «I»];[?«OI», ?«OI»]
;«LI».transformList(i, v, «I|i:I,v:I»);«LI».transformList(i, v, «B|i:I,v:I», «I|i:I,v:I»);«M».transformList(k, v, «I|k:S,v:I»);[«OI», «OI»].unwrapOpt()
;optional.unwrap([«OI»]);«LS».map(x, «I|x:S»);«LK».map(e, «I|e:K»);[[«I»], «LI»][0];self.set + «LI»;dyn([«LI»]).flatten(1);self.keyed.map(e, e.v);[«I», «X»]""",
    "LS": """[«S», «S»];«S».split(«SA»);«S».split(«SA», «IX»);«LS» + «LS»;«LS».map(x, «S|x:S»);«LS».filter(x, «B|x:S»);«LS».sort();«LS».distinct();«LS».reverse()
;«LS».slice(0, «IX»);«S».findAll(«SRX»);«S».findAll(«SRX», «IX»);«M».map(k, k);«M».filter(k, «B|k:S»);[?«OS»];«LI».map(x, «S|x:I»);«LS».sortBy(x, «I|x:S»)
;«LS».transformList(i, v, «S|i:I,v:S»);«F».validate(«SF»).value();«UR».getQuery()['q'];«UR».getQuery()[«S»];«MS».map(k, self.ms[k]);[['a'], «LS»].flatten()""",
    "LD": "[«D», «D»];«LD» + «LD»;«LD».sort();«LD».map(x, «D|x:D»);«LI».map(x, double(x));«LD».reverse()",
    "LU": "[«U»];«LI».map(x, uint(x));«LU».sort()",
    "LK": "«LK» + «LK»;«LK».filter(e, «B|e:K»);«LK».reverse();«LK».sortBy(e, «I|e:K»);self.keyed + self.keyed2;self.keyed2 + self.keyed",
    "M": """{'a': «I»};{«S»: «I»};{«S»: «I», «S»: «I»};{?«S»: «OI»};{?'a': «OI», 'b': «I»};«B» ? «M» : «M»;«M».transformMap(k, v, «I|k:S,v:I»)
;«M».transformMap(k, v, «B|k:S,v:I», «I|k:S,v:I»);«LS».transformMapEntry(i, v, {v: «I|i:I,v:S»});«M».transformMapEntry(k, v, {«S|k:S,v:I»: v})
;«LI».transformMapEntry(i, v, «B|i:I,v:I», {string(i): v});{'a': 1, 'a': «I»}""",
    "MS": "{'k': «S»};{«S»: «S»};«M».transformMap(k, v, «S|k:S,v:I»)",
    "MI": "{«I»: «S»};{1: «S», 2: «S»};«LS».transformMap(i, v, «S|i:I,v:S»);{«U»: «S»}",
    "K": "«LK»[«IX»];«LK».filter(e, has(e.v))[0]",
    "OI": """optional.of(«I»);optional.ofNonZeroValue(«I»);«OI».or(«OI»);«LI»[?«IX»];«M»[?«S»];«M».?a;«OI».optMap(v, «I|v:I»);«OI».optFlatMap(v, «OI|v:I»)
;«LI».first();«LI».last();«B» ? «OI» : «OI»;«LK»[?«IX»].v;self.?o.?x;{'a': «I»}[?«S»];optional.of(«LI»)[«IX»];optional.of(«M»)[?«S»];optional.of(self).?none
;«K».?v""",
    "OS": "optional.of(«S»);«OS».or(«OS»);«LS»[?«IX»];«MS»[?«S»];«OS».optMap(v, «S|v:S»);«MI»[?«I»];optional.ofNonZeroValue(«S»);«K».?k;«LS».first()",
    "X": """dyn(«I»);dyn(«S»);dyn(«D»);dyn(«LI»);dyn(«M»);[«X», «X»][«IX»];{'a': «X»}.a;«B» ? dyn(«I») : dyn(«S»);«X» + «X»;«X»[«IX»];«X».a;-«X»;dyn(«OI»);dyn(«Q»)
;dyn(«T»);dyn(«IP»);dyn(type(«X»));[dyn(«I»), dyn(«S»)].filter(x, x == 1);{dyn(«S»): 1, dyn(«I»): 2};[dyn(«I»), dyn(«D»)].max();dyn([1, 'a']);dyn(«LS»)
;«X» * «X»;«X» - «X»;«X» ? 1 : 2;dyn(«R») + dyn(«T»);dyn(«Y»);[«X», «X»];«X».map(x, x);«X».exists(x, x == 1);string(«X»);«X».size()""",
    "Q": "quantity(«SQ»);«Q».add(«Q»);«Q».sub(«Q»);«Q».add(«I»);«Q».sub(«I»)",
    "IP": "ip(«SIP»);«CI».ip()",
    "CI": "cidr(«SCI»);«CI».masked()",
    "UR": "url(«SUR»)",
    "V": "semver(«SV»);semver(«SV», «B»)",
    "F": "format.named(«SF»).value()",
    "TY": "type(«I»);type(«X»);type(«LI»);type(«OI»);type(«Q»);type(type(«S»));type(«M»);type(self);type(«T»)",
}
# What is written out: values at the edges, faults of types and of the text.
FIXED = r"""
self.nope
self.o.nope
nope
nope(1)
self.t.nope()
self.i.nope()
1 + 'a'
1 + 1u
1 + 1.0
'a' + 1
'a' == 1
[1, 'a']
[1, 1.0, 1u]
{'a': 1, 'b': 'c'}
{'a': 1, 2: 3}
{1.5: 1}
{null: 1}
{[1]: 1}
[1][true]
[1]['a']
{'a': 1}[1]
1[0]
self[0]
self['i']
self.i.x
has(self)
has(1)
has(self.l[0])
has(self.l)
has(a.b)
has(self.i.x)
[1].all(1, true)
[1].all(x.y, true)
[1].all(x, 1)
[1].all(x, y)
[1].map(x)
[1].map(x, x, x)
[1].map(x, x, x, x)
[1].filter(x, x)
[1].exists_one(x, 'a')
1.all(x, true)
'a'.all(x, true)
self.all(x, true)
self.o.all(x, true)
[1].all(i, i, true)
[1].all(__result__, true)
[1].map(__result__, 1)
[1].transformList(i, i, 1)
[1].transformMapEntry(i, v, 1)
[1].transformMapEntry(i, v, {i: v, v: i})
[1, 1].transformMapEntry(i, v, {v: i})
['a', 'b'].transformMapEntry(i, v, {'k': v})
[1].transformMap(i, v, w)
cel.bind(x, 1, x + 1)
cel.block([1], cel.index(0))
math.greatest(1, 2)
math.abs(-1)
base64.encode(b'a')
regex.replace('a', 'b', 'c')
'a'.reverse()
strings.reverse('a')
timestamp('nope')
timestamp('2020-01-01')
duration('nope')
duration('1y')
'a'.matches('[')
matches('a', '(')
self.t.matches('(?=x)')
Object{}
Object{a: 1}
Object.spec{a: 1}
JSONPatch{op: 'add'}
google.protobuf.Int32Value{value: 1}
google.protobuf.Timestamp{seconds: 1}
google.protobuf.Duration{seconds: 1}
google.protobuf.Struct{}
google.protobuf.Value{string_value: 'a'}
google.protobuf.Int64Value{value: 5} == 5
google.protobuf.BoolValue{value: 1}
google.protobuf.Nope{}
k8s.io.Foo{}
self{}
authorizer.path('/').check('get').allowed()
oldSelf
variables.x
request.x
params
9223372036854775808
-9223372036854775808
-9223372036854775809
18446744073709551616u
-1u
0xFFFFFFFFFFFFFFFF
0x7FFFFFFFFFFFFFFF
-0x8000000000000000
1e309
1e-400
1.7976931348623157e309
01
1_000
0b1
0o7
1.e5
1e
.e5
'unterminated
"unterminated
'''unterminated
'a
b'
'\q'
'\u12'
'\uD800'
'\U00110000'
'\400'
'\x4'
b'\u0041'
b'\400'
b'\777'
r'\'
rb'\x'
br'\x'
R'\n'
B'a'
bR'a'
'\a\b\f\n\r\t\v\?\`\'\"\\'
u'a'
`a`
self.`i`
self.o.`a-b.c/d`
self.`nope`
self.`i`()
has(self.`i`)
{`a`: 1}
''
""
// comment
1 // comment
1 /* x */
1 # 2
1 ; 2
1 = 1
1 === 1
1 <> 1
1 & 1
1 | 1
1 && 
&& true
true &&& true
true and true
not true
!
-
1 +
+ 1
+1
- 1
--1
---1
!-1
-!true
!!true
(1
1)
()
[
]
[1
[1,
[1,]
[1,,2]
[,]
[,1]
{
}
{1
{1:
{1:2
{1:2,}
{1:2,,}
{1,2}
{:}
{'a'}
{a: 1}
self.
self..i
self.1
self.?
self.?i.
self?.i
self[
self[]
self[?]
self[?'i']
self[1:2]
.self
.self.i
.nope
a.b.c
a.b.c()
.a.b
f(
f()
f(1
f(1,
f(1,)
f(,)
f(1 2)
1 2
1 'a'
true false
true ? 1
true ? 1 :
true ? : 1
true : 1
? 1 : 2
true ? 1 : 2 : 3
true ? true ? 1 : 2 : 3
1 ? 2 : 3
true ? 1 : 'a'
true ? 1 : 1.0
1 < 2 < 3
1 == 1 == true
1 in [1] == true
1 in 1
1 in 'a'
in
in [1]
1 in
if
if(true)
self.if
self.o.if
for
let x = 1
var
x => 1
null
null == null
null == 1
null in [null]
true
false
True
TRUE
None
as
break
const
continue
else
function
import
namespace
package
return
void
while
loop
self.return
self.in
self.true
self.null
int
type
type(int)
type(type)
type(1) == int
type(1) == type
int == int
list
map
dyn
list == type([])
null_type
optional_type
google
google.protobuf
google.protobuf.Timestamp
type(null)
type(self)
type(self.o)
type(optional.none())
type(quantity('1'))
type(url('http://a'))
type(ip('::1'))
type(cidr('::/0'))
type(semver('1.0.0'))
type(format.uuid())
net.IP
net.CIDR
kubernetes.Quantity
kubernetes.URL
kubernetes.Semver
type(ip('::1')) == net.IP
string(null)
string([1])
string({})
string(type(1))
string(quantity('1'))
string(semver('1.0.0'))
string(optional.of(1))
int(true)
int(null)
int([1])
int(b'1')
uint(true)
double(true)
double(b'1')
bool(1)
bytes(1)
bytes([1])
duration(1.5)
duration(1000000000)
timestamp(1.5)
timestamp(253402300799)
timestamp(253402300800)
timestamp(-62135596800)
timestamp(-62135596801)
size(1)
size(null)
size(true)
1.size()
[].min()
[].max()
[].sum()
[].sum() == 0
['a'].sum()
[true].min()
[null].max()
[[1]].max()
[].first()
[].first().value()
[].last().hasValue()
[].sort()
[].distinct()
[1, 1.0, 1u].distinct()
[dyn(1), dyn(1.0), dyn(1u)].distinct()
[[1], [1]].distinct()
[dyn(1), dyn('a')].sort()
[[1], [0]].sort()
[null].sort()
[{'a': 1}].sortBy(x, x.a)
[1, 2].sortBy(x, [x])
[1, 2].sortBy(x, dyn(x) == 1 ? dyn(1) : dyn('a'))
self.keyed.sortBy(e, e.k).map(e, e.v)
self.keyed.sortBy(e, e)
lists.range(-1)
lists.range(3)
lists.range(1000000)
[[[1]]].flatten()
[[[1]]].flatten(1)
[[[1]]].flatten(2)
[[[1]]].flatten(0)
[[[1]]].flatten(-1)
[1].flatten()
[1].slice(1, 0)
[1].slice(-1, 0)
[1].slice(0, 2)
[1].slice(1, 1)
optional.none().value()
optional.none().orValue(1)
optional.of(1).orValue('a')
optional.of(1).or(optional.of('a'))
optional.of(1).or(2)
optional.of(null)
optional.ofNonZeroValue(null)
optional.ofNonZeroValue([])
optional.ofNonZeroValue({})
optional.ofNonZeroValue(0)
optional.ofNonZeroValue(0.0)
optional.ofNonZeroValue(false)
optional.ofNonZeroValue(b'')
optional.ofNonZeroValue(duration('0s'))
optional.ofNonZeroValue(timestamp('0001-01-01T00:00:00Z'))
optional.ofNonZeroValue(optional.none())
optional.of(optional.of(1))
optional.of(1).optMap(x, x + 1)
optional.of(1).optMap(x.y, 1)
optional.of(1).optFlatMap(x, x)
optional.of(1).optMap(x, y)
optional.of(1).optMap(x)
1.optMap(x, x)
[1].unwrapOpt()
optional.unwrap([1])
optional.unwrap(1)
self.?i.?x
self.?o.?p.?q
self.?o.?nope
self.?nope
self.?o.p.q
self.?o.p.nope
self.?absent.hasValue()
self.?absent.size()
self[?0]
{?'a': 1}
{?'a': optional.of(1)}
[?1]
[?optional.none()]
[?optional.of(1), 'a']
{'a': 1}.?a
{'a': 1}.?a.hasValue()
{'a': {'b': 1}}.?a.b
{'a': {'b': 1}}.?a.?c
{'a': {'b': 1}}.?x.b
'%s'.format('a')
'%s'.format()
'%s'.format([1, 2])
'%s%s'.format([1])
'%d'.format(['a'])
'%d'.format([1.5])
'%f'.format(['a'])
'%x'.format([1.5])
'%b'.format(['a'])
'%z'.format([1])
'%'.format([1])
'%.'.format([1])
'%.3'.format([1.0])
'%s'.format([[1, 'a', {'b': null}]])
'%s'.format([[1u, 2.5, b'x', true, null]])
'%s'.format([{'b': 1, 'a': 2}])
'%s'.format([{1: 1, 'a': 2}])
'%e'.format([1234.5678])
'%e'.format([0.0])
'%f'.format([1.0 / 0.0])
'%f'.format([-1.0 / 0.0])
'%f'.format([0.0 / 0.0])
'%e'.format([0.0 / 0.0])
'%s'.format([0.0 / 0.0])
'%s'.format([1.0 / 0.0])
'%d'.format([dyn(1.0 / 0.0)])
'%s'.format([self])
'%s'.format([self.o])
'%s'.format([1.0])
'%s'.format([1e21])
'%s'.format([1e20])
'%s'.format([1e-7])
'%s'.format([123456789.0])
'%s'.format([type(1)])
string(1.0)
string(1e21)
string(1e20)
string(1e-7)
string(0.1 + 0.2)
string(-0.0)
string(1.0 / 0.0)
string(0.0 / 0.0)
string(123456789.0)
string(duration('1h'))
string(duration('-1.5s'))
string(timestamp('2020-01-01T00:00:00.000Z'))
string(b'\xff')
string(true)
0.0 / 0.0 == 0.0 / 0.0
[0.0 / 0.0] == [0.0 / 0.0]
0.0 / 0.0 in [0.0 / 0.0]
0.0 / 0.0 < 1.0
0.0 == -0.0
{0.0 / 0.0: 1}
{1: 1, 1: 2}
{1: 1, 1u: 2}
{1: 1, dyn(1.0): 2}
{'a': 1, 'a': 2}
{true: 1, false: 0}[true]
{true: 1}[dyn(1)]
{1: 'a'}[1.0]
{1: 'a'}[dyn(1.5)]
{1: 'a'}[dyn('x')]
{1u: 'a'}[dyn(1)]
[1, 2][dyn(1.0)]
[1, 2][dyn(1.5)]
[1, 2][dyn(1u)]
[1, 2][dyn('a')]
[1, 2][2]
[1, 2][-1]
{'a': 1}['b']
{'a': 1}.b
{'a': {'b': 1}}.a.b
{'a': {'b': 1}}.a.c
dyn({'a': 1}).b
dyn(1).a
dyn([1]).a
dyn('a')[0]
dyn(null).a
dyn(1)[0]
1 / 0
1u / 0u
1 % 0
1u % 0u
1.0 / 0.0
1.0 % 2.0
-9223372036854775808 / -1
-9223372036854775808 % -1
-(-9223372036854775808)
9223372036854775807 + 1
-9223372036854775808 - 1
9223372036854775807 * 2
18446744073709551615u + 1u
0u - 1u
18446744073709551615u * 2u
-5 / 2
-5 % 2
5 % -2
int(9223372036854775807.0)
int(-9223372036854775808.0)
int(9.3e18)
int(0.0 / 0.0)
int(-1.9)
int(18446744073709551615u)
uint(-1)
uint(-0.5)
uint(1.9e19)
uint(0.0 / 0.0)
1 < 1.5
1u < 1.5
-1 < 0u
18446744073709551615u > 9223372036854775807
9223372036854775807 < 9223372036854775808.0
9007199254740993 == 9007199254740992.0
dyn(9007199254740993) == dyn(9007199254740992.0)
dyn(1) == dyn(1u)
dyn(1) < dyn('a')
dyn(1) == dyn('a')
dyn(1) + dyn(1.0)
[1] == [1.0]
dyn([1]) == dyn([1.0])
{'a': 1} == {'a': 1.0}
dyn({'a': 1}) == dyn({'a': 1.0})
dyn({1: 1}) == dyn({1u: 1})
b'a' < b'b'
true < false
'a' < 'b'
'Z' < 'a'
'é' < 'z'
'👑' < '\uffff'
timestamp('2020-01-01T00:00:00Z') == timestamp('2020-01-01T01:00:00+01:00')
timestamp('9999-12-31T23:59:59Z') + duration('1s')
timestamp('0001-01-01T00:00:00Z') - duration('1s')
timestamp('9999-12-31T23:59:59Z') - timestamp('0001-01-01T00:00:00Z')
duration('2562047h') + duration('2562047h')
duration('-2562047h') - duration('2562047h')
-duration('1s')
timestamp('2020-03-08T06:59:59Z').getHours('America/New_York')
timestamp('2020-03-08T07:00:00Z').getHours('America/New_York')
timestamp('2020-11-01T05:59:59Z').getHours('America/New_York')
timestamp('2020-11-01T06:00:00Z').getHours('America/New_York')
timestamp('1883-11-18T12:03:58Z').getMinutes('America/New_York')
timestamp('1800-01-01T00:00:00Z').getMinutes('America/New_York')
timestamp('1800-01-01T00:00:00Z').getSeconds('America/New_York')
timestamp('2500-07-01T00:00:00Z').getHours('Europe/Berlin')
timestamp('2011-12-30T10:00:00Z').getDate('Pacific/Apia')
timestamp('9999-12-31T23:59:59Z').getFullYear('Asia/Tokyo')
timestamp('9999-12-31T23:59:59Z').getFullYear('+14:00')
timestamp('0001-01-01T00:00:00Z').getFullYear('-01:00')
timestamp('0001-01-01T00:00:00Z').getFullYear('America/New_York')
timestamp('2020-01-01T00:00:00Z').getHours('utc')
timestamp('2020-01-01T00:00:00Z').getHours('Utc')
timestamp('2020-01-01T00:00:00Z').getHours('europe/berlin')
timestamp('2020-01-01T00:00:00Z').getHours('Europe/Berlin ')
timestamp('2020-01-01T00:00:00Z').getHours('Europe\\Berlin')
timestamp('2020-01-01T00:00:00Z').getHours('100000:00')
timestamp('2020-01-01T00:00:00Z').getFullYear('100000:00')
timestamp('2020-01-01T00:00:00Z').getFullYear('-100000:00')
timestamp('2020-01-01T00:00:00Z').getFullYear('9223372036854775807:00')
timestamp('2020-01-01T00:00:00Z').getFullYear('9223372036854775808:00')
timestamp('2020-01-01T00:00:00Z').getHours(5)
timestamp('2020-01-01T00:00:00Z').getHours(dyn(5))
timestamp('2020-01-01T00:00:00Z').getHours('a', 'b')
duration('1h').getHours('UTC')
duration('1h').getFullYear()
duration('90m').getMilliseconds()
duration('1.5s').getMilliseconds()
duration('-90m').getHours()
self.when.getHours()
self.when.getHours('UTC')
self.when.getHours('Asia/Kolkata')
self.day.getDayOfYear()
ip('1.2.3.4').family() == 4
ip('::ffff:1.2.3.4')
ip('fe80::1%eth0')
ip(1)
isIP(1)
cidr('1.2.3.4/8').masked()
string(cidr('1.2.3.4/8').masked())
string(cidr('1.2.3.4/8'))
cidr('10.0.0.0/8').containsIP('nope')
cidr('10.0.0.0/8').containsIP('::1')
cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')
cidr('10.0.0.0/8').containsCIDR('10.0.0.0/7')
cidr('10.0.0.0/8').containsCIDR('nope')
cidr('::/0').containsIP(ip('1.2.3.4'))
cidr('0.0.0.0/0').containsIP(ip('::ffff:1.2.3.4'))
quantity('1Gi').isGreaterThan(quantity('1G'))
quantity('1').add(1) == quantity('2')
quantity('1').add(1.0)
quantity('1.5').asInteger()
quantity('9223372036854775807').asInteger()
quantity('9223372036854775808').asInteger()
quantity('1.5').isInteger()
quantity('1000m').isInteger()
quantity('1').compareTo(1)
quantity('50k') == quantity('50000')
quantity('50k').compareTo(quantity('50000'))
quantity('1') < quantity('2')
quantity('-1').sign()
quantity('0').sign()
quantity(1)
quantity('1').sub(quantity('2')).sign()
semver('1.0.0') < semver('2.0.0')
semver('1.0.0+a') == semver('1.0.0+b')
semver('1.0.0+a').compareTo(semver('1.0.0+b'))
semver('1.0.0-a').isLessThan(semver('1.0.0'))
semver('v1', true).minor()
semver('v1', 'true')
isSemver('v1')
isSemver('v1', true)
format.named('dns1123Label').hasValue()
format.named('nope').hasValue()
format.dns1123Label().validate('A').value()
format.dns1123Label().validate('a').hasValue()
format.uri().validate('nope').value()
format.date().validate('2020-13-45').value()
format.datetime().validate('x').value()
format.byte().validate('!').value()
format.uuid().validate('x').value()
format.labelValue().validate('-').value()
format.qualifiedName().validate('a/b/c').value()
format.qualifiedName().validate('').value()
format.dns1123Label().validate(1)
format.nope()
format.dns1123Label
url('http://a/b?c=d&c=e&f').getQuery()
url('http://a/b').getQuery() == {}
url('http://u:p@h/p') == url('http://u:p@h/p')
url('nope')
url('http://a/%zz')
url('https://[::1]:80/').getHostname()
url('https://[::1]:80/').getPort()
string(url('https://h/a b'))
url('https://h/a b').getEscapedPath()
isURL('https://h/a b')
sets.contains([1, 2], [1])
sets.contains([1], [1.0])
sets.contains(dyn([1]), dyn([1.0]))
sets.equivalent([], [])
sets.intersects([], [1])
sets.contains([], [])
sets.contains([1], ['a'])
sets.union([1], [2])
'abc'.charAt(3)
'abc'.charAt(4)
'abc'.charAt(-1)
'abc'.substring(3)
'abc'.substring(4)
'abc'.substring(2, 1)
'abc'.substring(-1, 1)
'abc'.indexOf('')
'abc'.indexOf('', 3)
'abc'.indexOf('', 4)
'abc'.indexOf('c', -1)
'abc'.lastIndexOf('')
'abc'.lastIndexOf('', 1)
'abc'.lastIndexOf('a', -1)
'abc'.lastIndexOf('a', 9)
'aaa'.replace('a', 'b', 2)
'aaa'.replace('a', 'b', -1)
'aaa'.replace('a', 'b', 0)
'aaa'.replace('', '-')
'é漢'.replace('', '-', 2)
'a,b'.split(',', 0)
'a,b'.split(',', 1)
'a,b'.split(',', -1)
''.split(',')
''.split('')
'é漢'.split('')
' \u00a0\u2003a\u3000 '.trim()
'\u0085a\u180e'.trim()
'ÀÉa'.lowerAscii()
'àéA'.upperAscii()
strings.quote('a\n"\\\u0007é\u200b')
strings.quote('\ufffd')
['a', 'b'].join(1)
[1].join()
[dyn('a'), dyn(1)].join()
'abc'.find('b(c)')
'abcabc'.findAll('b(c)')
'abcabc'.findAll('b', 0)
'abcabc'.findAll('b', 1)
'abcabc'.findAll('b', -1)
'abc'.find('(')
'aaa'.findAll('')
'a'.matches('a{1000}')
'a'.matches('a{1001}')
'a'.matches('(a{100}){100}')
'a\nb'.matches('a.b')
'a\nb'.matches('(?s)a.b')
'é'.matches('^.$')
'é'.matches('^\\w$')
'K'.matches('(?i)k')
'a'.contains(1)
'abc'.startsWith('')
1.startsWith('a')
self.i.startsWith('a')
jsonpatch.escapeKey('a~b/c')
self.set + self.set2
self.set2 + self.set
self.set == self.set2
self.set == [3, 2, 1]
[3, 2, 1] == self.set
self.keyed + self.keyed2
self.keyed == self.keyed2
self.keyed + [self.keyed2[0]]
self.set.map(x, x) == [1, 2, 3]
self.l + self.short
self.n
self.n == null
self.n == 'a'
has(self.n)
self.?n
self.none
self.none == 1
self.open.x
self.open.unknown
has(self.open.unknown)
self.open
self.pod.metadata.labels
self.pod.metadata.name
self.pod.spec
self.pod.apiVersion
self.pod
self.o
self.keyed
self.ios
self.ios + 'a'
self.ios + 1
self.ios2 + 1
self.ios == '25%'
type(self.ios) == string
self.ios2 == 3
self.ios < 5
self.ios.size()
self.ios2.size()
self.day
self.when
self.wait
self.raw
self.whole
self.ld
self.big + 1
self.whole == 3
self.whole == 3.0
self.d > 10
self.few == 'blue'
self.i == '5'
self.m.a
self.m['a']
self.m.b
self.m == {'a': 1}
self.m.map(k, self.m[k])
self.m.size() == 1
self.m.exists(k, v, v == 1)
self.ms.key
self == self
self.o == {'x': 1}
self.o.x == 1 ? self.o.p : self.o.p
self.keyed.exists(e, e.k == 'a' && e.v == 1)
self.keyed.filter(e, e.v > 1)
self.keyed2.map(e, e.v)
self.keyed2.all(e, has(e.v))
self.keyed.map(e, e.k) == self.keyed2.map(e, e.k)
self.l.all(x, self.l.all(y, self.l.all(z, x + y + z > 0)))
lists.range(1000).all(x, lists.range(1000).all(y, true))
lists.range(100).map(x, lists.range(100).map(y, x * y)).size()
lists.range(3000).map(x, 'a').join().size()
lists.range(300).all(x, self.s + self.s + self.s != 'a')
lists.range(2000).filter(x, x % 2 == 0).size()
lists.range(500).exists(x, x == 499)
lists.range(400).map(x, [x]).flatten().size()
lists.range(1000).sort().reverse().distinct().size()
lists.range(60).sortBy(x, -x)[0]
lists.range(2000).transformMap(i, v, v).size()
lists.range(200).map(x, string(x)).sort()[0]
lists.range(100).all(x, 'abcabcabcabc'.matches('^(abc)+$'))
lists.range(100).all(x, quantity('1').add(x).isInteger())
lists.range(200).all(x, ip('1.2.3.4') == ip('1.2.3.4'))
lists.range(100).all(x, timestamp('2020-01-01T00:00:00Z') < timestamp('2020-01-02T00:00:00Z'))
lists.range(50).map(x, {'a': x}).map(m, m.a).sum()
lists.range(1000).indexOf(999)
lists.range(100) == lists.range(100)
sets.contains(lists.range(100), lists.range(50))
sets.equivalent(lists.range(100), lists.range(100))
lists.range(1000).sum()
'%.1000001f'.format([2.0])
'%.256f'.format([2.5])
'%.20e'.format([2.5])
'%.3e'.format([-0.0])
quantity('3') == quantity('1').add(quantity('2'))
quantity('1').add(quantity('2')) == quantity('3')
[quantity('1').add(1)] == [quantity('2')]
dyn([1])[1.0 / 0.0]
dyn([1])[1e18]
self.l[dyn(1.0)]
(self.l + [1])[dyn(2u)]
(self.set + [1])[dyn(2u)]
dyn(ip('1.2.3.4')).size()
size(dyn(duration('1s')))
-dyn('a')
-dyn(true)
-dyn(timestamp(0))
dyn('a') * dyn('a')
dyn(null) - dyn(1)
dyn(timestamp(0)) % dyn(1)
ip('1:2')
ip('1:2:3:4:5:6:7:8:9')
ip('1:2:3:4:5:6:7::8')
ip('1::2::3')
ip('12345::')
ip('1:2:')
ip('::g')
ip('::1.2.3')
ip('1:2:3:4:5:6:7:1.2.3.4')
ip('1:1.2.3.4')
ip('1.2.3.4.5')
ip('1.2..4')
ip('.1.2.3')
ip('1.2.3.x')
ip('fe80::%')
ip('1%2')
""".strip("\n").split("\n")

PART = re.compile("«([A-Z]+)(?:\\|([^»]*))?»")


class Grammar:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.leaves = {of: split_leaves(text) for of, text in LEAVES.items()}
        self.forms = {of: [form.strip() for form in text.split(";") if form.strip()] for of, text in FORMS.items()}
        self.wrong = 0.0

    def make(self, of, depth, names=()):
        """Returns an expression of a type."""
        if of != "IR" and self.random.random() < self.wrong:
            of = self.random.choice(sorted(self.leaves))
        known = [name for name, its in names if its == of]
        if known and self.random.random() < 0.45:
            return self.random.choice(known)
        if depth <= 0 or of not in self.forms or self.random.random() < 0.15:
            return self.random.choice(self.leaves[of])
        return self.fill(self.random.choice(self.forms[of]), depth - 1, names)

    def fill(self, form, depth, names=()):
        out, at, parts = "", 0, list(PART.finditer(form))
        for part in parts:
            inner = names
            if part[2]:
                inner = tuple(tuple(pair.split(":")) for pair in part[2].split(",")) + names
            text = self.make(part[1], depth, inner)
            out += form[at : part.start()]
            # A part that is not alone and not an argument may need parentheses. Some are left out.
            before, after = form[part.start() - 1 : part.start()], form[part.end() : part.end() + 1]
            bare = before in ("", "(", "[", "{") and after in ("", ")", "]", "}", ",") or text[-1:].isalnum() and "-" not in text and " " not in text
            out += text if bare or not re.search(r"[ -]", text) or self.random.random() < 0.03 else f"({text})"
            at = part.end()
        return out + form[at:]

    def broken(self, text):
        """Returns an expression with one character removed, added or changed."""
        at = self.random.randrange(len(text) + 1)
        letter = self.random.choice("()[]{}.,:?!=<>&|+-*/%'\"`\\ 1aux_@#$;é")
        cut = self.random.choice((0, 1))
        return text[:at] + self.random.choice(("", letter)) + text[at + cut :]


def split_leaves(text):
    """Returns the words of a text, where quotes and brackets keep spaces."""
    out, word, quote, depth, at = [], "", "", 0, 0
    while at < len(text):
        letter = text[at]
        if quote:
            if letter == "\\" and at + 1 < len(text):
                word += text[at : at + 2]
                at += 2
                continue
            if text.startswith(quote, at):
                word += quote
                at += len(quote)
                quote = ""
                continue
        elif letter in "'\"":
            quote = letter * 3 if text.startswith(letter * 3, at) else letter
            word += quote
            at += len(quote)
            continue
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == " " and depth == 0:
            out.append(word)
            word = ""
            at += 1
            continue
        word += letter
        at += 1
    return [word for word in [*out, word] if word]


def expressions(seed, count):
    grammar = Grammar(seed)
    out = dict.fromkeys(line for line in FIXED if line)
    # Multi-line texts are lines of their own above; these stand for them.
    for text in ("1 +\n 'a'", "\n1", "'a\nb'", "'''a\nb'''", "1\n\n+ true", "\tself.nope", "é", "'é' + 1", "self.ls.all(x,\n  x == 1)", "1\r\n+ 'a'", ""):
        out[text] = None
    for of in sorted(grammar.leaves):
        out.update(dict.fromkeys(grammar.leaves[of]))
    forms = [(of, form) for of in sorted(grammar.forms) for form in grammar.forms[of]]
    while len(out) < count:
        for of, form in forms:
            grammar.wrong = grammar.random.choice((0, 0, 0, 0, 0.05))
            text = grammar.fill(form, grammar.random.choice((0, 0, 1, 1, 2, 3)))
            if grammar.random.random() < 0.05:
                text = grammar.broken(text)
            if len(text) <= 400:
                out[text] = None
    return list(out)[:count]


def recorded(evaluator, texts):
    """Returns each expression with its answer, without those whose answers vary."""
    runs = [asked(evaluator, texts) for _ in range(RUNS)]
    return [(text, first) for text, first, *others in zip(texts, *runs) if all(other == first for other in others)]



class Server:
    """A kube-apiserver, and definitions with rules about one expression each."""

    def __init__(self, url, token):
        parts = urllib.parse.urlsplit(url)
        context = ssl._create_unverified_context()
        self.connection = http.client.HTTPSConnection(parts.hostname, parts.port, context=context, timeout=60)
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self.began, self.count = int(time.time()), 0

    def send(self, method, path, body=None):
        self.connection.request(method, path, body and json.dumps(body), self.headers)
        answer = self.connection.getresponse()
        text = answer.read()
        # What is not served yet has a page that is not JSON.
        return answer.status, json.loads(text) if text.startswith(b"{") else {}

    def definition(self, rules):
        """Creates a definition, and returns its name and what the server says to it."""
        self.count += 1
        plural = f"sample{self.began}n{self.count}s"
        names = {"plural": plural, "singular": plural[:-1], "kind": plural.capitalize()}
        spec = {**SCHEMA, "x-kubernetes-validations": rules}
        schema = {"type": "object", "properties": {"spec": spec}}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        crd = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.cel.example"},
            "spec": {"group": "cel.example", "scope": "Cluster", "names": names, "versions": [version]},
        }
        return plural, *self.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)

    def verdicts(self, plural):
        """Returns the messages about an object, once the definition is served."""
        body = {"apiVersion": "cel.example/v1", "kind": plural.capitalize(), "metadata": {"name": "a"}, "spec": OBJECT}
        for _ in range(100):
            status, answer = self.send("POST", f"/apis/cel.example/v1/{plural}?dryRun=All", body)
            if status != 404:
                return [cause["message"] for cause in answer.get("details", {}).get("causes", [])]
            time.sleep(0.1)
        raise SystemExit(f"{plural} is not served")


def checked(evaluator, server, cases, count):
    """Compares a sample of the recorded answers with a server's. Prints those that differ, and returns how many agree."""
    chosen = random.Random(SEED)
    agreed = {"faults": 0, "errors": 0, "values": 0, "costs": 0}

    def note(kind, text, is_same, found):
        agreed[kind] += is_same
        if not is_same:
            print(kind, text, found, sep="\n   ")

    def sample(key, fits):
        found = [case for case in cases if key in case[1] and fits(case)]
        return chosen.sample(found, min(count, len(found)))

    # The server names the type of self after the time.
    plain = re.compile("selfType[0-9]+")
    for text, answer in sample("f", lambda case: case[0].strip() and "object" not in case[1]["f"]):
        _, _, said = server.definition([{"rule": text, "message": "m"}])
        note("faults", text, answer["f"] in plain.sub("object", said.get("message", "")), said.get("message"))
    one_line = lambda case: "\n" not in case[0] and case[0].strip() and case[1]["s"][1] < 1_000
    # Errors and values: a hundred rules of one definition, whose messages tell them apart.
    errors = sample("x", lambda case: one_line(case) and "internal error" not in case[1]["x"])
    # A messageExpression must have the type of a text, which that of dyn() is not.
    values = sample("v", lambda case: one_line(case) and "dyn(" not in case[0] and re.match('(-?[0-9]+u?|true|false|"[^ \\\\]+")$', case[1]["v"]))
    for kind, part in (("errors", errors), ("values", values)):
        for at in range(0, len(part), 100):
            some = part[at : at + 100]
            rules = [{"rule": f"[{text}].size() == 0", "messageExpression": text if answer.get("v", "")[:1] == '"' else f"string({text})"} for text, answer in some]
            if kind == "errors":
                rules = [{"rule": f"[{text}].size() == 0", "message": f"{n}="} for n, (text, _) in enumerate(some)]
            plural, status, said = server.definition(rules)
            if status != 201:
                print(kind, plural, said.get("message"))
                continue
            messages = server.verdicts(plural)
            for n, (text, answer) in enumerate(some):
                if kind == "errors":
                    wanted = {answer["x"] + f" evaluating rule: {n}=", f"'{answer['x']}': call arguments did not match a supported operator, function or macro signature for rule: {n}="}
                    is_same = any(message.split(": ", 2)[-1] in wanted or any(message.endswith(one) for one in wanted) for message in messages)
                else:
                    value = answer["v"].strip('"').replace('\\"', '"').replace("\\\\", "\\")
                    value = value[:-1] if re.fullmatch("[0-9]+u", answer["v"]) else value
                    # Each rule fails, so the messages are in the order of the rules.
                    is_same = len(messages) == len(some) and messages[n] == f"Invalid value: {value}"
                note(kind, text, is_same, messages[n : n + 1])
    # Costs: loops that cost as much as they may, nine of a definition whose object may cost ten times as much, and
    # those with one item more, of which each ends the evaluation.
    # Nothing of them is computed beforehand, so each item costs the same.
    chosen_loops = [text for text, _ in sample("v", lambda case: one_line(case) and "self." in case[0])][: count // 2]
    loops = []
    for text in chosen_loops:
        loop = f"lists.range(LENGTH).all(i, [{text}].size() == 1)"
        few, more = (answer["c"] for answer in asked(evaluator, [loop.replace("LENGTH", "10"), loop.replace("LENGTH", "20")]))
        length = 10 + (LIMIT - few) * 10 // (more - few)
        loops.append((text, loop.replace("LENGTH", str(length)), loop.replace("LENGTH", str(length + 1))))
    ours = {}
    for part in [loops[at : at + 9] for at in range(0, len(loops), 9)]:
        plural, status, said = server.definition([{"rule": fits, "message": "m"} for _, fits, _ in part])
        found = server.verdicts(plural) if status == 201 else [said.get("message")]
        ours.update((text, found) for text, _, _ in part)
    for text, _, exceeds in loops:
        plural, status, said = server.definition([{"rule": exceeds, "message": "m"}])
        found = server.verdicts(plural) if status == 201 else [said.get("message")]
        note("costs", text, ours[text] == [] and "cost exceeds limit" in "".join(found), (ours[text], found))
    return agreed


def asked(evaluator, texts):
    request = json.dumps({"schema": SCHEMA, "object": OBJECT, "expressions": texts})
    done = subprocess.run([evaluator], input=request, capture_output=True, text=True, timeout=300, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluator")
    parser.add_argument("--print", action="store_true")
    parser.add_argument("--server")
    parser.add_argument("--token")
    parser.add_argument("--sample", type=int, default=60)
    args = parser.parse_args()
    texts = expressions(SEED, COUNT)
    if args.print:
        print("\n".join(map(repr, texts)))
        return
    if args.server:
        lines = gzip.decompress(FIXTURE.read_bytes()).decode().splitlines()
        agreed = checked(args.evaluator, Server(args.server, args.token), [json.loads(line) for line in lines[1:]], args.sample)
        print(agreed)
        return
    cases = recorded(args.evaluator, texts)
    how = "cel_reference.go in Kubernetes 1.36.2 with cel-go 0.26.0"
    about = {"how": how, "seed": SEED, "schema": SCHEMA, "object": OBJECT}
    lines = [about, *([text, answer] for text, answer in cases)]
    data = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
    FIXTURE.write_bytes(gzip.compress(data.encode(), 9, mtime=0))
    print(len(texts), "expressions,", len(cases), "answers,", FIXTURE.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
