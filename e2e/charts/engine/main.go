// Evaluates PromQL with Prometheus' own engine over pages of metrics that were scraped at given times.
//
// Reads one JSON object from standard input, and writes a list to standard output, one answer for each query:
//
//	{"scrapes": [{"at": SECONDS, "labels": {"pod": "a"}, "text": "..."}], "start": SECONDS, "end": SECONDS, "step": SECONDS,
//	 "queries": ["up == 0"]}
//	[{"error": "", "warnings": [], "series": [{"labels": {...}, "values": [[SECONDS, NUMBER], ...]}]}]
//
// As when Prometheus scrapes a target, the target's labels are put on each series, a label of the same name in the page becomes
// `exported_...`, and a series that is no longer there becomes stale: all of them, after the empty page of a target that is gone.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

type scrape struct {
	At     float64           `json:"at"`
	Labels map[string]string `json:"labels"`
	Text   string            `json:"text"`
}

type input struct {
	Scrapes []scrape `json:"scrapes"`
	Start   float64  `json:"start"`
	End     float64  `json:"end"`
	Step    float64  `json:"step"`
	Queries []string `json:"queries"`
}

type series struct {
	Labels map[string]string `json:"labels"`
	Values [][2]float64      `json:"values"`
}

type answer struct {
	Error    string   `json:"error"`
	Warnings []string `json:"warnings"`
	Series   []series `json:"series"`
}

// sample is one number at one time.
type sample struct {
	t int64
	f float64
}

func (s sample) T() int64                      { return s.t }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.f }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// store holds all samples of all series in memory.
type store struct {
	names   map[string]labels.Labels
	samples map[string][]chunks.Sample
}

// scraped takes a page in, and marks as stale what the page before it (of the same target) had and this one has not.
func (s *store) scraped(page scrape, before map[string]bool) (map[string]bool, error) {
	at := int64(math.Round(page.At * 1000))
	found, err := textparse.New([]byte(page.Text), "text/plain; version=0.0.4", labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for {
		entry, err := found.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, number := found.Series()
		var own labels.Labels
		found.Labels(&own)
		s.add(targeted(own, page.Labels), sample{at, number}, seen)
	}
	for key := range before {
		if !seen[key] {
			s.samples[key] = append(s.samples[key], sample{at, math.Float64frombits(value.StaleNaN)})
		}
	}
	return seen, nil
}

func (s *store) add(all labels.Labels, one sample, seen map[string]bool) {
	key := all.String()
	if seen[key] {
		return
	}
	seen[key] = true
	s.names[key] = all
	s.samples[key] = append(s.samples[key], one)
}

func targeted(own labels.Labels, target map[string]string) labels.Labels {
	all := map[string]string{}
	own.Range(func(one labels.Label) {
		if _, taken := target[one.Name]; taken {
			all["exported_"+one.Name] = one.Value
		} else {
			all[one.Name] = one.Value
		}
	})
	for name, given := range target {
		all[name] = given
	}
	return labels.FromMap(all)
}

func (s *store) Querier(mint, maxt int64) (storage.Querier, error) {
	return &querier{s, mint, maxt}, nil
}

type querier struct {
	store      *store
	mint, maxt int64
}

func (q *querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	for key, all := range q.store.names {
		fits := true
		for _, one := range matchers {
			fits = fits && one.Matches(all.Get(one.Name))
		}
		if !fits {
			continue
		}
		var within []chunks.Sample
		for _, one := range q.store.samples[key] {
			if one.T() >= q.mint && one.T() <= q.maxt {
				within = append(within, one)
			}
		}
		if len(within) > 0 {
			found = append(found, storage.NewListSeries(all, within))
		}
	}
	sort.Slice(found, func(i, j int) bool { return labels.Compare(found[i].Labels(), found[j].Labels()) < 0 })
	return &set{found: found, at: -1}
}

func (q *querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.New("labels are not asked for")
}

func (q *querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.New("labels are not asked for")
}

func (q *querier) Close() error { return nil }

type set struct {
	found []storage.Series
	at    int
}

func (s *set) Next() bool                        { s.at++; return s.at < len(s.found) }
func (s *set) At() storage.Series                { return s.found[s.at] }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }

func evaluate(engine *promql.Engine, held *store, given input, expression string) answer {
	query, err := engine.NewRangeQuery(
		context.Background(), held, nil, expression, moment(given.Start), moment(given.End), time.Duration(given.Step*float64(time.Second)))
	if err != nil {
		return answer{Error: err.Error()}
	}
	defer query.Close()
	result := query.Exec(context.Background())
	if result.Err != nil {
		return answer{Error: result.Err.Error()}
	}
	matrix, err := result.Matrix()
	if err != nil {
		return answer{Error: err.Error()}
	}
	said := answer{Warnings: []string{}, Series: []series{}}
	warnings, infos := result.Warnings.AsStrings(expression, 0, 0)
	said.Warnings = append(append(said.Warnings, warnings...), infos...)
	for _, one := range matrix {
		shown := series{Labels: one.Metric.Map(), Values: [][2]float64{}}
		for _, point := range one.Floats {
			if !math.IsNaN(point.F) && !math.IsInf(point.F, 0) {
				shown.Values = append(shown.Values, [2]float64{float64(point.T) / 1000, point.F})
			}
		}
		said.Series = append(said.Series, shown)
	}
	return said
}

func moment(seconds float64) time.Time { return time.UnixMilli(int64(math.Round(seconds * 1000))) }

func run() error {
	var given input
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		return fmt.Errorf("what is read from standard input is no question: %w", err)
	}
	held := &store{names: map[string]labels.Labels{}, samples: map[string][]chunks.Sample{}}
	before := map[string]map[string]bool{}
	sort.SliceStable(given.Scrapes, func(i, j int) bool { return given.Scrapes[i].At < given.Scrapes[j].At })
	for _, page := range given.Scrapes {
		target := labels.FromMap(page.Labels).String()
		seen, err := held.scraped(page, before[target])
		if err != nil {
			return fmt.Errorf("the page of %s at %v cannot be read: %w", target, page.At, err)
		}
		before[target] = seen
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableAtModifier: true, EnableNegativeOffset: true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return 60_000 }, Parser: parser.NewParser(parser.Options{}),
	})
	answers := make([]answer, 0, len(given.Queries))
	for _, expression := range given.Queries {
		answers = append(answers, evaluate(engine, held, given, expression))
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
