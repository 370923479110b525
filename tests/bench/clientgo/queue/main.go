// Measures client-go's rate-limiting workqueue as workqueue.py measures ours; prints a line of JSON for each load.
//
//	queue ROUNDS
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/util/workqueue"
)

const round = 50_000

type key struct{ namespace, name string }

type queue = workqueue.TypedRateLimitingInterface[key]

// metrics count and sum as the collectors of Prometheus do, without its library.
type metrics struct{ count, sum atomic.Uint64 }

func (m *metrics) Inc()              { m.count.Add(1) }
func (m *metrics) Dec()              { m.count.Add(math.MaxUint64) }
func (m *metrics) Set(value float64) { m.sum.Store(math.Float64bits(value)) }
func (m *metrics) Observe(v float64) { m.count.Add(1); m.add(v) }
func (m *metrics) add(value float64) {
	for {
		old := m.sum.Load()
		if m.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+value)) {
			return
		}
	}
}

type provider struct{}

func (provider) NewDepthMetric(string) workqueue.GaugeMetric            { return &metrics{} }
func (provider) NewAddsMetric(string) workqueue.CounterMetric           { return &metrics{} }
func (provider) NewLatencyMetric(string) workqueue.HistogramMetric      { return &metrics{} }
func (provider) NewWorkDurationMetric(string) workqueue.HistogramMetric { return &metrics{} }
func (provider) NewRetriesMetric(string) workqueue.CounterMetric        { return &metrics{} }
func (provider) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return &metrics{}
}
func (provider) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return &metrics{}
}

func fresh() queue {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.DefaultTypedControllerRateLimiter[key](),
		workqueue.TypedRateLimitingQueueConfig[key]{Name: "bench", MetricsProvider: provider{}},
	)
}

func pass(q queue) {
	item, _ := q.Get()
	q.Done(item)
}

// A thousand keys are added, then worked off.
func burst(q queue, keys []key) {
	for start := 0; start < len(keys); start += 1000 {
		part := keys[start : start+1000]
		for _, item := range part {
			q.Add(item)
		}
		for range part {
			pass(q)
		}
	}
}

// Each key is worked off before the next one comes.
func single(q queue, keys []key) {
	for _, item := range keys {
		q.Add(item)
		pass(q)
	}
}

// Eight workers wait while keys come in bursts of a hundred.
func workers(q queue, keys []key) {
	var left atomic.Int64
	left.Store(int64(len(keys)))
	var done sync.WaitGroup
	for range 8 {
		done.Add(1)
		go func() {
			defer done.Done()
			for {
				item, stopped := q.Get()
				if stopped {
					return
				}
				q.Done(item)
				if left.Add(-1) == 0 {
					q.ShutDown()
				}
			}
		}()
	}
	for start := 0; start < len(keys); start += 100 {
		for _, item := range keys[start : start+100] {
			q.Add(item)
		}
		runtime.Gosched()
	}
	done.Wait()
}

func cpu() float64 {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(used.Utime) + seconds(used.Stime)
}

func main() {
	rounds, _ := strconv.Atoi(os.Args[1])
	keys := make([]key, round)
	for number := range keys {
		keys[number] = key{"default", "object-" + strconv.Itoa(number)}
	}
	for _, load := range []struct {
		name string
		run  func(queue, []key)
	}{{"burst", burst}, {"single", single}, {"workers", workers}} {
		best, quickest := 0.0, 0.0
		for range rounds {
			runtime.GC()
			q := fresh()
			began, started := time.Now(), cpu()
			load.run(q, keys)
			best = max(best, round/(cpu()-started))
			quickest = max(quickest, round/time.Since(began).Seconds())
			q.ShutDown()
		}
		line, _ := json.Marshal(map[string]any{"load": load.name, "per_cpu_s": int(best), "per_s": int(quickest)})
		fmt.Println(string(line))
	}
}
