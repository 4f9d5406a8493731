import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/** Takes and releases Curator's mutex as standard input says. Arguments: address of ZooKeeper, node of the lock. */
public class CuratorMutex {
  public static void main(String[] arguments) throws Exception {
    CuratorFramework client = CuratorFrameworkFactory.newClient(arguments[0], 4000, 4000, new RetryOneTime(100));
    client.start();
    client.blockUntilConnected();
    InterProcessMutex mutex = new InterProcessMutex(client, arguments[1]);
    System.out.println("ready");
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      String[] words = line.trim().split(" ");
      if (words[0].equals("acquire")) {
        System.out.println(mutex.acquire(Long.parseLong(words[1]), TimeUnit.MILLISECONDS) ? "yes" : "no");
      } else {
        mutex.release();
        System.out.println("released");
      }
    }
    client.close();
  }
}
