import com.sun.management.OperatingSystemMXBean;
import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.ConfigBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.dsl.base.ResourceDefinitionContext;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;

/**
 * Measures fabric8's shared informer as ingest.py measures ours; prints the same line of JSON.
 *
 * <pre>java -cp 'DEPENDENCIES/*:CLASSES' Ingest URL COUNT EVENTS</pre>
 */
public final class Ingest {
    private static final ResourceDefinitionContext EXAMPLES = new ResourceDefinitionContext.Builder()
            .withGroup("kopf.dev")
            .withVersion("v1")
            .withKind("KopfExample")
            .withPlural("kopfexamples")
            .withNamespaced(true)
            .build();
    private static final OperatingSystemMXBean PROCESS =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private static final int PAGE = 4096;

    /** Resident memory in bytes, without what the next collection frees: Java keeps garbage for as long as there is room. */
    private static long rss() throws IOException {
        System.gc();
        return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]) * PAGE;
    }

    private static double cpu() {
        return PROCESS.getProcessCpuTime() / 1e9;
    }

    private static double now() {
        return System.nanoTime() / 1e9;
    }

    /** A subscriber that does nothing but count, and notes when. */
    private static final class Counter implements ResourceEventHandler<GenericKubernetesResource> {
        private final int count;
        private final int events;
        private int added;
        private int live;
        private final CountDownLatch listed = new CountDownLatch(1);
        private final CountDownLatch done = new CountDownLatch(1);
        private double first;
        private double firstCpu;
        private double last;
        private double lastCpu;

        Counter(int count, int events) {
            this.count = count;
            this.events = events;
        }

        @Override
        public void onAdd(GenericKubernetesResource object) {
            if (++added == count) {
                listed.countDown();
            }
        }

        @Override
        public void onUpdate(GenericKubernetesResource before, GenericKubernetesResource after) {
            live++;
            if (live == 1) {
                first = now();
                firstCpu = cpu();
            }
            if (live == events) {
                last = now();
                lastCpu = cpu();
                done.countDown();
            }
        }

        @Override
        public void onDelete(GenericKubernetesResource object, boolean unknown) {
            throw new IllegalStateException("nothing is deleted");
        }
    }

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[1]);
        Counter counter = new Counter(count, Integer.parseInt(arguments[2]));
        Config config = new ConfigBuilder(Config.empty()).withMasterUrl(arguments[0]).build();
        try (KubernetesClient client = new KubernetesClientBuilder().withConfig(config).build()) {
            long before = rss();
            double began = now();
            double burnt = cpu();
            SharedIndexInformer<GenericKubernetesResource> informer =
                    client.genericKubernetesResources(EXAMPLES).inAnyNamespace().inform(counter);
            counter.listed.await();
            double synced = now() - began;
            double syncedCpu = cpu() - burnt;
            Thread.sleep(200);
            long held = rss() - before;
            counter.done.await();
            System.out.printf(
                    "{\"objects\": %d, \"events\": %d, \"sync_per_s\": %d, \"sync_per_cpu_s\": %d,"
                            + " \"live_per_s\": %d, \"live_per_cpu_s\": %d, \"rss_per_object_bytes\": %d}%n",
                    informer.getStore().list().size(),
                    counter.live,
                    Math.round(count / synced),
                    Math.round(count / syncedCpu),
                    Math.round((counter.live - 1) / (counter.last - counter.first)),
                    Math.round((counter.live - 1) / (counter.lastCpu - counter.firstCpu)),
                    held / count);
        }
        System.exit(0);
    }
}
