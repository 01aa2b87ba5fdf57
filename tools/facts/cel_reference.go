// Evaluates CEL expressions as the rules of custom resources are evaluated in Kubernetes, with the
// packages that kube-apiserver itself uses, and prints what each gives. It is built inside of a
// checkout of Kubernetes: put it into a folder of its own below cmd/ there, and run "go build".
//
// Standard input is a JSON object with schema, object and expressions. Each line of the output
// answers one expression:
//
//	{"f": text}                       it has errors (or "p": its program has one)
//	{"v": value, "c": cost, "s": [least, most]}   its value, its cost, and the estimate of it
//	{"x": error, "c": cost, "s": [least, most]}   the error of its evaluation
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

type input struct {
	Schema      apiextensionsv1.JSONSchemaProps `json:"schema"`
	Object      json.RawMessage                 `json:"object"`
	Expressions []string                        `json:"expressions"`
}

type answer struct {
	Fault    *string   `json:"f,omitempty"`
	Program  *string   `json:"p,omitempty"`
	Value    *string   `json:"v,omitempty"`
	Error    *string   `json:"x,omitempty"`
	Cost     *uint64   `json:"c,omitempty"`
	Estimate *[]uint64 `json:"s,omitempty"`
}

// sizes tells the estimator how large parts of the object may be.
type sizes struct{ root *apiservercel.DeclType }

func (s sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	path := element.Path()
	if len(path) == 0 {
		return nil
	}
	at := s.root
	for _, step := range path[1:] {
		if at == nil {
			return nil
		}
		switch step {
		case "@items", "@values":
			at = at.ElemType
		case "@keys":
			at = at.KeyType
		default:
			field := at.Fields[step]
			if field == nil {
				return nil
			}
			at = field.Type
		}
	}
	if at == nil {
		return nil
	}
	return &checker.SizeEstimate{Min: 0, Max: uint64(at.MaxElements)}
}

func (sizes) EstimateCallCost(_, _ string, _ *checker.AstNode, _ []checker.AstNode) *checker.CallEstimate {
	return nil
}

func quoted(text string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, letter := range text {
		if letter == '"' || letter == '\\' {
			out.WriteByte('\\')
		}
		if letter < ' ' || letter > '~' {
			fmt.Fprintf(&out, "\\u{%x}", letter)
		} else {
			out.WriteRune(letter)
		}
	}
	out.WriteByte('"')
	return out.String()
}

func double(number float64) string {
	text := strconv.FormatFloat(number, 'e', -1, 64)
	mantissa, exponent, found := strings.Cut(text, "e")
	if !found {
		return "d" + text
	}
	power, _ := strconv.Atoi(exponent)
	return fmt.Sprintf("d%se%d", mantissa, power)
}

func shown(value ref.Val) string {
	switch of := value.(type) {
	case types.Null:
		return "null"
	case types.Bool:
		return strconv.FormatBool(bool(of))
	case types.Int:
		return strconv.FormatInt(int64(of), 10)
	case types.Uint:
		return strconv.FormatUint(uint64(of), 10) + "u"
	case types.Double:
		return double(float64(of))
	case types.String:
		return quoted(string(of))
	case types.Bytes:
		return "b" + hex.EncodeToString(of)
	case types.Timestamp:
		return "time " + of.Time.Format(time.RFC3339Nano)
	case types.Duration:
		return strconv.FormatInt(int64(of.Duration), 10) + "ns"
	case *types.Optional:
		if of.HasValue() {
			return "optional " + shown(of.GetValue())
		}
		return "none"
	case *types.Type:
		return "type " + of.TypeName()
	case *types.Err:
		return "!" + of.Error()
	case traits.Lister:
		var items []string
		for it := of.Iterator(); it.HasNext() == types.True; {
			items = append(items, shown(it.Next()))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case traits.Mapper:
		var entries []string
		for it := of.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			// Members without a schema are counted, but have no keys.
			if key != nil {
				entries = append(entries, shown(key)+": "+shown(of.Get(key)))
			}
		}
		sort.Strings(entries)
		return "{" + strings.Join(entries, ", ") + "}"
	}
	return value.Type().TypeName()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func evaluate(env *cel.Env, estimator *library.CostEstimator, self ref.Val, text string) (out answer) {
	ast, issues := env.Compile(text)
	if issues != nil {
		fault := issues.String()
		return answer{Fault: &fault}
	}
	program, err := env.Program(ast,
		cel.CostLimit(celconfig.PerCallLimit),
		cel.CostTracking(estimator),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		fault := err.Error()
		return answer{Program: &fault}
	}
	estimate, err := env.EstimateCost(ast, estimator)
	must(err)
	out.Estimate = &[]uint64{estimate.Min, estimate.Max}
	value, details, err := program.ContextEval(context.Background(), map[string]any{"self": self})
	out.Cost = details.ActualCost()
	if err != nil {
		fault := err.Error()
		out.Error = &fault
	} else {
		text := shown(value)
		out.Value = &text
	}
	return out
}

func main() {
	var in input
	must(json.NewDecoder(bufio.NewReader(os.Stdin)).Decode(&in))
	var props apiextensions.JSONSchemaProps
	must(apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&in.Schema, &props, nil))
	structural, err := schema.NewStructural(&props)
	must(err)
	var object any
	must(utiljson.Unmarshal(in.Object, &object))
	declared := model.SchemaDeclType(structural, false).MaybeAssignTypeName("object")
	set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(
		environment.VersionedOptions{
			IntroducedVersion: version.MajorMinor(1, 0),
			EnvOptions:        []cel.EnvOption{cel.Variable("self", declared.CelType())},
			DeclTypes:         []*apiservercel.DeclType{declared},
		})
	must(err)
	env := set.NewExpressionsEnv()
	estimator := &library.CostEstimator{SizeEstimator: sizes{declared}}
	self := schemacel.UnstructuredToVal(object, structural)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for _, text := range in.Expressions {
		must(encoder.Encode(evaluate(env, estimator, self, text)))
	}
}
