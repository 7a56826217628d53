package app;

import org.eclipse.hawkbit.autoconfigure.security.EnableHawkbitManagedSecurityConfiguration;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;

/** hawkBit's server with its database in memory. */
@SpringBootApplication
@EnableHawkbitManagedSecurityConfiguration
public class Fleet {
    public static void main(String[] args) {
        SpringApplication.run(Fleet.class, args);
    }
}
